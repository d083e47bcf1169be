// A read and written model is the same model: compared field by field with the protobuf classes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>

#include "graph/io/onnx_protos.h"
#include "graph/io/reader.h"
#include "graph/io/text.h"
#include "graph/io/writer.h"
#include "tests/support/temporary_folder.h"

namespace attune {
namespace {

namespace fs = std::filesystem;

// Tensor data as bytes, whatever field it is in (only what the models at hand use).
std::string data_of(const onnx::TensorProto& t) {
  if (t.has_raw_data()) return t.raw_data();
  std::string out;
  const auto append = [&](const auto& values) {
    for (const auto v : values) out.append(reinterpret_cast<const char*>(&v), sizeof v);
  };
  append(t.float_data());
  append(t.int64_data());
  append(t.double_data());
  if (t.data_type() == onnx::TensorProto::INT32) {
    append(t.int32_data());
  } else {
    for (const auto v : t.int32_data()) out.push_back(static_cast<char>(v));  // 8 bits
  }
  return out;
}

void expect_same(const onnx::TensorProto& a, const onnx::TensorProto& b) {
  EXPECT_EQ(a.data_type(), b.data_type());
  EXPECT_TRUE(std::equal(a.dims().begin(), a.dims().end(), b.dims().begin(), b.dims().end()));
  EXPECT_EQ(data_of(a), data_of(b));
  EXPECT_TRUE(
      std::equal(a.string_data().begin(), a.string_data().end(), b.string_data().begin(), b.string_data().end()));
}

void expect_same(const onnx::GraphProto& a, const onnx::GraphProto& b);

void expect_same(const onnx::AttributeProto& a, const onnx::AttributeProto& b) {
  SCOPED_TRACE(a.name());
  EXPECT_EQ(a.type(), b.type());
  if (a.has_g()) {
    expect_same(a.g(), b.g());
  } else if (a.has_t()) {
    expect_same(a.t(), b.t());
  } else {
    onnx::AttributeProto x = a, y = b;
    x.clear_doc_string();
    EXPECT_EQ(x.SerializeAsString(), y.SerializeAsString());
  }
}

template <class T>
std::map<std::string, const T*> by_name(const google::protobuf::RepeatedPtrField<T>& items) {
  std::map<std::string, const T*> out;
  for (const T& item : items) out[item.name()] = &item;
  return out;
}

void expect_same(const onnx::NodeProto& a, const onnx::NodeProto& b) {
  SCOPED_TRACE(a.name() + " " + a.op_type());
  EXPECT_EQ(a.op_type(), b.op_type());
  EXPECT_EQ(a.domain() == "ai.onnx" ? "" : a.domain(), b.domain());
  EXPECT_TRUE(a.name().empty() || a.name() == b.name()) << b.name();
  EXPECT_TRUE(std::equal(a.input().begin(), a.input().end(), b.input().begin(), b.input().end()));
  EXPECT_TRUE(std::equal(a.output().begin(), a.output().end(), b.output().begin(), b.output().end()));
  ASSERT_EQ(a.attribute_size(), b.attribute_size());
  const auto x = by_name(a.attribute()), y = by_name(b.attribute());
  for (const auto& [name, attribute] : x) {
    ASSERT_TRUE(y.contains(name)) << name;
    expect_same(*attribute, *y.at(name));
  }
}

template <class T>
void expect_same_infos(const T& a, const T& b) {
  ASSERT_EQ(a.size(), b.size());
  for (int i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].SerializeAsString(), b[i].SerializeAsString()) << a[i].name();
}

void expect_same(const onnx::GraphProto& a, const onnx::GraphProto& b) {
  SCOPED_TRACE("graph " + a.name());
  EXPECT_TRUE(a.name().empty() || a.name() == b.name()) << b.name();
  expect_same_infos(a.input(), b.input());
  expect_same_infos(a.output(), b.output());
  ASSERT_EQ(a.node_size(), b.node_size());
  // Nodes that don't come sorted are sorted.
  std::map<std::string, const onnx::NodeProto*> nodes;
  for (const auto& n : b.node()) nodes[n.output(0)] = &n;
  for (const auto& n : a.node()) {
    ASSERT_TRUE(nodes.contains(n.output(0))) << n.output(0);
    expect_same(n, *nodes.at(n.output(0)));
  }
  const auto x = by_name(a.initializer()), y = by_name(b.initializer());
  ASSERT_EQ(x.size(), y.size());
  for (const auto& [name, tensor] : x) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(y.contains(name));
    expect_same(*tensor, *y.at(name));
  }
  // Types of values that exist; those of constants are the constants' own.
  std::map<std::string, std::string> types;
  for (const auto& info : b.value_info()) types[info.name()] = info.SerializeAsString();
  for (const auto& info : a.value_info()) {
    const bool produced = std::any_of(a.node().begin(), a.node().end(), [&](const auto& n) {
      return std::find(n.output().begin(), n.output().end(), info.name()) != n.output().end();
    });
    const bool output =
        std::any_of(a.output().begin(), a.output().end(), [&](const auto& o) { return o.name() == info.name(); });
    if (produced && !output && info.has_type()) {
      EXPECT_EQ(info.SerializeAsString(), types[info.name()]);
    }
  }
}

void expect_same(const onnx::ModelProto& a, const onnx::ModelProto& b) {
  EXPECT_EQ(a.ir_version(), b.ir_version());
  EXPECT_EQ(a.producer_name(), b.producer_name());
  EXPECT_EQ(a.producer_version(), b.producer_version());
  EXPECT_EQ(a.doc_string(), b.doc_string());
  ASSERT_EQ(a.opset_import_size(), b.opset_import_size());
  ASSERT_EQ(a.metadata_props_size(), b.metadata_props_size());
  ASSERT_EQ(a.functions_size(), b.functions_size());
  for (int i = 0; i < a.functions_size(); ++i) {
    ASSERT_EQ(a.functions(i).node_size(), b.functions(i).node_size());
    for (int n = 0; n < a.functions(i).node_size(); ++n) expect_same(a.functions(i).node(n), b.functions(i).node(n));
  }
  expect_same(a.graph(), b.graph());
}

std::vector<fs::path> sample_models() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(ATTUNE_SOURCE_DIR) / "tests/models"))
    if (entry.path().extension() == ".onnx") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

TEST(RoundTrip, SampleModelsStayTheSame) {
  const auto files = sample_models();
  ASSERT_FALSE(files.empty());
  for (const fs::path& file : files) {
    SCOPED_TRACE(file.string());
    Model model = read_model(file);
    model.graph->verify();
    onnx::ModelProto before, after;
    ASSERT_TRUE(before.ParseFromString(test::read_file(file)));
    ASSERT_TRUE(after.ParseFromString(serialize_model(model)));
    expect_same(before, after);
  }
}

TEST(RoundTrip, SampleModelsThroughFilesWithExternalData) {
  const test::TemporaryFolder folder;
  for (const fs::path& file : sample_models()) {
    SCOPED_TRACE(file.string());
    Model model = read_model(file);
    write_model(model, folder / "model.onnx", {64, 0});
    Model again = read_model(folder / "model.onnx");
    EXPECT_EQ(serialize_model(model), serialize_model(again));
  }
}

TEST(RoundTrip, ACloneIsWrittenTheSame) {
  for (const fs::path& file : sample_models()) {
    SCOPED_TRACE(file.string());
    Model model = read_model(file);
    const std::string before = serialize_model(model);
    const auto original = std::exchange(model.graph, model.graph->clone());
    model.graph->verify();
    EXPECT_EQ(before, serialize_model(model));
  }
}

// Everything that a ModelProto may hold beside nodes and tensors.
TEST(RoundTrip, NotesAreKept) {
  onnx::ModelProto proto;
  proto.set_ir_version(11);
  proto.set_producer_name("producer");
  proto.set_producer_version("1.2");
  proto.set_domain("domain");
  proto.set_model_version(7);
  proto.set_doc_string("model doc");
  proto.add_opset_import()->set_version(21);
  const auto note = [](auto* entries, const char* key) {
    auto* e = entries->Add();
    e->set_key(key);
    e->set_value(std::string("value of ") + key);
  };
  note(proto.mutable_metadata_props(), "model");
  auto* configuration = proto.add_configuration();
  configuration->set_name("two");
  configuration->set_num_devices(2);
  proto.add_training_info()->mutable_algorithm()->set_name("algorithm");
  auto& graph = *proto.mutable_graph();
  graph.set_name("main");
  graph.set_doc_string("graph doc");
  note(graph.mutable_metadata_props(), "graph");
  auto& input = *graph.add_input();
  input.set_name("x");
  input.set_doc_string("input doc");
  note(input.mutable_metadata_props(), "input");
  auto& type = *input.mutable_type();
  type.set_denotation("IMAGE");
  type.mutable_tensor_type()->set_elem_type(1);
  auto& shape = *type.mutable_tensor_type()->mutable_shape();
  auto* dim = shape.add_dim();
  dim->set_dim_param("past+1");
  dim->set_denotation("DATA_BATCH");
  shape.add_dim()->set_dim_value(3);
  shape.add_dim();
  shape.add_dim()->set_dim_param("odd (name)!");
  shape.add_dim()->set_dim_param("1");
  auto& node = *graph.add_node();
  node.set_op_type("Relu");
  node.set_name("relu");
  node.set_doc_string("node doc");
  node.set_overload("overload");
  node.set_domain("some.where");
  node.add_input("x");
  node.add_output("y");
  note(node.mutable_metadata_props(), "node");
  node.add_device_configurations()->set_configuration_id("two");
  auto& odd = *node.add_attribute();
  odd.set_name("sparse");
  odd.set_type(onnx::AttributeProto::SPARSE_TENSOR);
  odd.mutable_sparse_tensor()->add_dims(3);
  auto& output = *graph.add_output();
  output.set_name("y");
  output.set_doc_string("output doc");
  auto& scale = *graph.add_initializer();
  scale.set_name("scale");
  scale.set_data_type(1);
  scale.add_float_data(0.5f);
  scale.set_doc_string("scale doc");
  note(scale.mutable_metadata_props(), "scale");
  auto& annotation = *graph.add_quantization_annotation();
  annotation.set_tensor_name("y");
  auto* parameter = annotation.add_quant_parameter_tensor_names();
  parameter->set_key("SCALE_TENSOR");
  parameter->set_value("scale");

  Model model = read_model_bytes(proto.SerializeAsString());
  model.graph = model.graph->clone();
  onnx::ModelProto after;
  ASSERT_TRUE(after.ParseFromString(serialize_model(model)));
  // The one difference: values are written as raw data.
  auto& written = *after.mutable_graph()->mutable_initializer(0);
  EXPECT_EQ(data_of(written), data_of(scale));
  written.clear_raw_data();
  written.add_float_data(0.5f);
  after.mutable_opset_import(0)->clear_domain();
  EXPECT_EQ(proto.SerializeAsString(), after.SerializeAsString());
}

TEST(RoundTrip, TextIsKept) {
  const char* text = R"(
<ir_version: 10, opset_import: ["" : 20, "local" : 1]>
main (float[batch, "past + 1", 8] x, seq(float) s, optional(int64[2]) o) => (float[batch, "a b"] y, float z)
<float[8, 2] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}>
{
  m = MatMul(x, w)
  y = local.twice <alpha = 2.5, names = ["a", "b"], sizes = [1, 2]> (m)
  c = Constant <value = int64[2] {1, 2}> ()
  z = ReduceSum <keepdims = 0> (y)
}
<domain: "local", opset_import: ["" : 20]>
twice <alpha, names, sizes> (a) => (b) { k = Constant <value_float: float = @alpha> () b = Mul(a, k) }
)";
  Model model = parse_model(text);
  const std::string once = to_text(model);
  Model again = parse_model(once);
  EXPECT_EQ(once, to_text(again));
  EXPECT_NE(once.find("past + 1"), std::string::npos) << once;
  EXPECT_EQ(model.functions.at(0).attributes, (std::vector<std::string>{"alpha", "names", "sizes"}));
}

}  // namespace
}  // namespace attune
