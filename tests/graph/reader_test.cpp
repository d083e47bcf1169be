#include "graph/io/reader.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "graph/io/onnx_protos.h"
#include "graph/io/text.h"
#include "graph/io/writer.h"
#include "tests/support/error_matchers.h"
#include "tests/support/temporary_folder.h"

namespace attune {
namespace {

using test::IsError;
using test::thrown;
using Kind = Error::Kind;

onnx::ModelProto empty_model() {
  onnx::ModelProto proto;
  proto.set_ir_version(10);
  proto.add_opset_import()->set_version(21);
  proto.mutable_graph()->set_name("g");
  return proto;
}

onnx::NodeProto& add_node(onnx::GraphProto& graph, const char* op, std::vector<std::string> inputs,
                          std::vector<std::string> outputs) {
  auto& node = *graph.add_node();
  node.set_op_type(op);
  for (auto& i : inputs) node.add_input(i);
  for (auto& o : outputs) node.add_output(o);
  return node;
}

void add_input(onnx::GraphProto& graph, const char* name) {
  auto& input = *graph.add_input();
  input.set_name(name);
  input.mutable_type()->mutable_tensor_type()->set_elem_type(1);
}

onnx::TensorProto& add_initializer(onnx::GraphProto& graph, const char* name, int type, std::vector<int64_t> dims) {
  auto& t = *graph.add_initializer();
  t.set_name(name);
  t.set_data_type(type);
  for (const int64_t d : dims) t.add_dims(d);
  return t;
}

Model read(const onnx::ModelProto& proto) { return read_model_bytes(proto.SerializeAsString()); }

const Tensor& constant(const Model& model, std::string_view name) {
  for (const auto& v : model.graph->constants())
    if (v->name() == name) return *v->constant();
  throw Error(Kind::kInternal, "no constant " + std::string(name));
}

TEST(Reader, BuildsTheGraph) {
  const Model m = parse_model(R"(
    <ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]>
    main (float[n, 4] x, int64 unused) => (float[n, 4] y) <float[4] w = {1, 2, 3, 4}>
    { a = Add(x, w)  y, , z = Three<k = 1>(a, , x) })");
  const Graph& g = *m.graph;
  EXPECT_EQ(m.opset(), 17);
  EXPECT_EQ(m.opset("ai.onnx"), 17);
  EXPECT_EQ(m.opset("ai.onnx.ml"), 3);
  ASSERT_EQ(g.inputs().size(), 2u);
  EXPECT_EQ(g.inputs()[0]->type().to_string(), "float(n,4)");
  ASSERT_EQ(g.nodes().size(), 2u);
  const Node& three = *g.nodes().back();
  ASSERT_EQ(three.inputs().size(), 3u);
  EXPECT_EQ(three.input(1), nullptr);
  EXPECT_EQ(three.input(2), g.inputs()[0]);
  ASSERT_EQ(three.output_count(), 3u);
  EXPECT_EQ(three.output(1), nullptr);
  EXPECT_EQ(three.attr_int("k", 0), 1);
  EXPECT_EQ(g.outputs()[0], three.output(0));
  EXPECT_EQ(constant(m, "w").to_double(), (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(g.constants().front()->type().to_string(), "float(4)");
}

TEST(Reader, SortsNodes) {
  auto proto = empty_model();
  auto& g = *proto.mutable_graph();
  add_input(g, "x");
  add_node(g, "Third", {"b"}, {"c"});
  add_node(g, "Second", {"a"}, {"b"});
  add_node(g, "First", {"x"}, {"a"});
  const Model m = read(proto);
  std::string order;
  for (const auto& n : m.graph->nodes()) order += n->type() + " ";
  EXPECT_EQ(order, "First Second Third ");
}

TEST(Reader, BodiesSeeOuterValues) {
  const Model m = parse_model(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    main (bool c, float[n] x) => (float[n] y) {
      w = Neg(x)
      y = If (c) <then_branch = t () => (float[n] r) { r = Add(w, x) },
                  else_branch = e () => (float[n] w) { }>
    })");
  m.graph->verify();
  const Node& node = *m.graph->nodes().back();
  const auto bodies = node.subgraphs();
  ASSERT_EQ(bodies.size(), 2u);
  EXPECT_EQ(bodies[0]->parent_node(), &node);
  const Value* w = m.graph->nodes().front()->output();
  // An outer value as the output of a body goes through an Identity, so that outputs are the body's own.
  ASSERT_EQ(bodies[0]->nodes().size(), 1u);
  EXPECT_TRUE(bodies[0]->nodes().front()->is("Identity"));
  EXPECT_EQ(bodies[0]->nodes().front()->input(0), w);
  EXPECT_EQ(bodies[1]->captured(), (std::vector<Value*>{const_cast<Value*>(w), m.graph->inputs()[1]}));
}

TEST(Reader, InnermostNameWins) {
  auto proto = empty_model();
  auto& g = *proto.mutable_graph();
  add_input(g, "x");
  auto& node = add_node(g, "If", {"x"}, {"y"});
  auto& attribute = *node.add_attribute();
  attribute.set_name("then_branch");
  attribute.set_type(onnx::AttributeProto::GRAPH);
  auto& body = *attribute.mutable_g();
  add_node(body, "Neg", {"x"}, {"a"});
  add_node(body, "Abs", {"a"}, {"y"});  // shadows the outer y
  body.add_output()->set_name("y");
  g.add_output()->set_name("y");
  Model m = read(proto);
  m.graph->verify();
  const Graph& body_graph = *m.graph->nodes().front()->subgraphs()[0];
  EXPECT_EQ(body_graph.outputs()[0]->producer()->type(), "Abs");
  EXPECT_EQ(m.graph->outputs()[0]->producer()->type(), "If");
}

TEST(Reader, Ir3InitializersAreConstants) {
  auto proto = empty_model();
  proto.set_ir_version(3);
  auto& g = *proto.mutable_graph();
  add_input(g, "x");
  add_input(g, "w");
  add_initializer(g, "w", 1, {1}).add_float_data(2);
  add_node(g, "Mul", {"x", "w"}, {"y"});
  const Model m = read(proto);
  EXPECT_EQ(m.graph->inputs().size(), 1u);
  EXPECT_EQ(constant(m, "w").to_double(), std::vector<double>{2});
  EXPECT_EQ(m.ir_version, 4);

  proto.set_ir_version(4);  // from here on it is a default that callers may override
  const Model newer = read(proto);
  ASSERT_EQ(newer.graph->inputs().size(), 2u);
  EXPECT_EQ(newer.graph->inputs()[1]->constant(), nullptr);
  EXPECT_NE(newer.graph->inputs()[1]->default_value(), nullptr);
}

TEST(Reader, EveryFormOfConstantHasAValue) {
  const Model m = parse_model(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    main () => () {
      a = Constant<value_float = 1.5>()   b = Constant<value_int = 3>()       c = Constant<value_string = "s">()
      d = Constant<value_floats = [1.0, 2.0]>()  e = Constant<value_ints = [4, 5]>()  f = Constant<value_strings = ["p", "q"]>()
      g = Constant<value = float[2] {7, 8}>()
    })");
  std::vector<const Tensor*> values;
  for (const auto& n : m.graph->nodes()) {
    ASSERT_NE(n->output()->constant(), nullptr) << n->label();
    values.push_back(n->output()->constant());
  }
  EXPECT_EQ(values[0]->to_double(), std::vector<double>{1.5});
  EXPECT_EQ(values[0]->rank(), 0u);
  EXPECT_EQ(values[1]->to_int64(), std::vector<int64_t>{3});
  EXPECT_EQ(values[2]->strings(), std::vector<std::string>{"s"});
  EXPECT_EQ(values[3]->to_double(), (std::vector<double>{1, 2}));
  EXPECT_EQ(values[4]->to_int64(), (std::vector<int64_t>{4, 5}));
  EXPECT_EQ(values[5]->strings(), (std::vector<std::string>{"p", "q"}));
  EXPECT_EQ(values[6]->shape(), Shape({2}));
}

TEST(Reader, SparseBecomesDense) {
  auto proto = empty_model();
  auto& sparse = *proto.mutable_graph()->add_sparse_initializer();
  sparse.add_dims(2);
  sparse.add_dims(3);
  auto& values = *sparse.mutable_values();
  values.set_name("s");
  values.set_data_type(1);
  values.add_dims(2);
  values.add_float_data(5);
  values.add_float_data(6);
  auto& indices = *sparse.mutable_indices();
  indices.set_data_type(7);
  indices.add_dims(2);
  indices.add_int64_data(1);
  indices.add_int64_data(5);
  EXPECT_EQ(constant(read(proto), "s").to_double(), (std::vector<double>{0, 5, 0, 0, 0, 6}));

  indices.add_dims(2);  // as coordinates
  indices.clear_int64_data();
  for (const int64_t i : {0, 2, 1, 1}) indices.add_int64_data(i);
  EXPECT_EQ(constant(read(proto), "s").to_double(), (std::vector<double>{0, 0, 5, 0, 6, 0}));

  indices.set_int64_data(1, 3);
  EXPECT_THAT(thrown([&] { read(proto); }), IsError(Kind::kInvalidModel, "index 3 is outside of (2,3)"));
  sparse.set_dims(0, int64_t{1} << 40);
  EXPECT_THAT(thrown([&] { read(proto); }), IsError(Kind::kLimit, "sparse tensor 's'"));
}

TEST(Reader, Functions) {
  const Model m = parse_model(R"(
    <ir_version: 10, opset_import: ["" : 20, "local" : 1]>
    main (float[n] x) => (float[n] y) { y = local.f <alpha = 2.0> (x) }
    <domain: "local", opset_import: ["" : 20]>
    f <alpha> (a) => (b) { k = Constant <value_float: float = @alpha> () b = Mul(a, k) })");
  const Function* f = m.find_function("local", "f");
  ASSERT_NE(f, nullptr);
  EXPECT_EQ(f->attributes, std::vector<std::string>{"alpha"});
  const Node& k = *f->body->nodes().front();
  ASSERT_NE(k.find<AttributeReference>("value_float"), nullptr);
  EXPECT_EQ(k.find<AttributeReference>("value_float")->name, "alpha");
  EXPECT_EQ(k.output()->constant(), nullptr);
}

// ---- What isn't a model

struct Broken {
  const char* name;
  void (*change)(onnx::ModelProto&);
  Kind kind;
  const char* message;
};

class ReaderRejects : public testing::TestWithParam<Broken> {};

TEST_P(ReaderRejects, WithAReason) {
  auto proto = empty_model();
  add_input(*proto.mutable_graph(), "x");
  GetParam().change(proto);
  EXPECT_THAT(thrown([&] { read(proto); }), IsError(GetParam().kind, GetParam().message));
}

onnx::AttributeProto& attribute(onnx::ModelProto& m, const char* name, onnx::AttributeProto::AttributeType type) {
  auto& a = *add_node(*m.mutable_graph(), "Op", {"x"}, {"y"}).add_attribute();
  a.set_name(name);
  a.set_type(type);
  return a;
}

const Broken kBroken[] = {
    {"NoGraph", [](auto& m) { m.clear_graph(); }, Kind::kInvalidModel, "it has no graph"},
    {"NoIrVersion", [](auto& m) { m.clear_ir_version(); }, Kind::kInvalidModel, "IR version"},
    {"FutureIrVersion", [](auto& m) { m.set_ir_version(1000); }, Kind::kUnsupported, "IR version 1000"},
    {"NoOpset", [](auto& m) { m.clear_opset_import(); }, Kind::kInvalidModel, "imports no opset"},
    {"OpsetTwice", [](auto& m) { m.add_opset_import()->set_version(3); }, Kind::kInvalidModel, "two opset versions"},
    {"OpsetZero", [](auto& m) { m.mutable_opset_import(0)->set_version(0); }, Kind::kInvalidModel, "opset version 0"},
    {"InputTwice", [](auto& m) { add_input(*m.mutable_graph(), "x"); }, Kind::kInvalidModel,
     "two values are named 'x'"},
    {"OutputOfTwoNodes",
     [](auto& m) {
       add_node(*m.mutable_graph(), "A", {"x"}, {"y"});
       add_node(*m.mutable_graph(), "B", {"x"}, {"y"});
     },
     Kind::kInvalidModel, "node of 'y' (B): two values are named 'y'"},
    {"InitializerTwice",
     [](auto& m) {
       add_initializer(*m.mutable_graph(), "w", 1, {}).add_float_data(1);
       add_initializer(*m.mutable_graph(), "w", 1, {}).add_float_data(1);
     },
     Kind::kInvalidModel, "two values are named 'w'"},
    {"DefaultTwice",
     [](auto& m) {
       add_initializer(*m.mutable_graph(), "x", 1, {}).add_float_data(1);
       add_initializer(*m.mutable_graph(), "x", 1, {}).add_float_data(1);
     },
     Kind::kInvalidModel, "two initializers are named 'x'"},
    {"UndefinedInput",
     [](auto& m) {
       add_node(*m.mutable_graph(), "A", {"x", "nothing"}, {"y"});
     },
     Kind::kInvalidModel, "node of 'y' (A): input 1 is 'nothing', which nothing defines"},
    {"UndefinedOutput", [](auto& m) { m.mutable_graph()->add_output()->set_name("q"); }, Kind::kInvalidModel,
     "output 'q' is defined by nothing"},
    {"Cycle",
     [](auto& m) {
       add_node(*m.mutable_graph(), "A", {"b"}, {"a"}).set_name("one");
       add_node(*m.mutable_graph(), "B", {"a"}, {"b"}).set_name("two");
     },
     Kind::kInvalidModel, "cycle"},
    {"SelfCycle", [](auto& m) { add_node(*m.mutable_graph(), "A", {"a"}, {"a"}); }, Kind::kInvalidModel, "cycle"},
    {"NoOperator", [](auto& m) { add_node(*m.mutable_graph(), "", {"x"}, {"y"}); }, Kind::kInvalidModel, "no operator"},
    {"AttributeTwice",
     [](auto& m) {
       auto& n = add_node(*m.mutable_graph(), "A", {"x"}, {"y"});
       for (int i = 0; i < 2; ++i) {
         n.add_attribute()->set_name("k");
         n.mutable_attribute(i)->set_i(1);
       }
     },
     Kind::kInvalidModel, "attribute 'k': it is there twice"},
    {"AttributeOfTwoTypes", [](auto& m) { attribute(m, "k", onnx::AttributeProto::INT).set_f(1); }, Kind::kInvalidModel,
     "attribute 'k'"},
    {"AttributeWithTwoValues",
     [](auto& m) {
       attribute(m, "k", onnx::AttributeProto::INT).set_f(1);
       m.mutable_graph()->mutable_node(0)->mutable_attribute(0)->set_i(1);
     },
     Kind::kInvalidModel, "it holds several values"},
    {"TensorAttributeWithoutTensor", [](auto& m) { attribute(m, "k", onnx::AttributeProto::TENSOR); },
     Kind::kInvalidModel, "it holds nothing"},
    {"ReferenceOutsideOfAFunction",
     [](auto& m) { attribute(m, "k", onnx::AttributeProto::INT).set_ref_attr_name("a"); }, Kind::kInvalidModel,
     "outside of a function"},
    {"TooFewBytes", [](auto& m) { add_initializer(*m.mutable_graph(), "w", 1, {2}).set_raw_data("1234"); },
     Kind::kInvalidModel, "tensor 'w': a tensor (2) of float needs 8 bytes and has 4"},
    {"TooManyBytes", [](auto& m) { add_initializer(*m.mutable_graph(), "w", 3, {2}).set_raw_data("123"); },
     Kind::kInvalidModel, "needs 2 bytes and has 3"},
    {"TooFewValues", [](auto& m) { add_initializer(*m.mutable_graph(), "w", 1, {2}).add_float_data(1); },
     Kind::kInvalidModel, "has 1 values where its shape needs 2"},
    {"NoData", [](auto& m) { add_initializer(*m.mutable_graph(), "w", 7, {3}); }, Kind::kInvalidModel, "has 0 values"},
    {"HugeClaim",
     [](auto& m) {
       add_initializer(*m.mutable_graph(), "w", 1, {1 << 30, 1 << 20});
     },
     Kind::kInvalidModel, "has 0 values"},
    {"OverflowingShape",
     [](auto& m) {
       add_initializer(*m.mutable_graph(), "w", 1, {int64_t{1} << 40, int64_t{1} << 40});
     },
     Kind::kLimit, "too many elements"},
    {"NegativeSize", [](auto& m) { add_initializer(*m.mutable_graph(), "w", 1, {-1}); }, Kind::kInvalidModel,
     "negative size -1"},
    {"UnknownElementType", [](auto& m) { add_initializer(*m.mutable_graph(), "w", 99, {0}); }, Kind::kInvalidModel,
     "no element type 99"},
    {"NoElementType", [](auto& m) { add_initializer(*m.mutable_graph(), "w", 0, {0}); }, Kind::kInvalidModel,
     "no element type"},
    {"RawStrings", [](auto& m) { add_initializer(*m.mutable_graph(), "w", 8, {1}).set_raw_data("a"); },
     Kind::kInvalidModel, "strings can't be raw data"},
    {"RankTooHigh",
     [](auto& m) { add_initializer(*m.mutable_graph(), "w", 1, std::vector<int64_t>(13, 1)).add_float_data(1); },
     Kind::kLimit, "rank 13"},
    {"Segments", [](auto& m) { add_initializer(*m.mutable_graph(), "w", 1, {0}).mutable_segment()->set_begin(0); },
     Kind::kUnsupported, "segments"},
};
INSTANTIATE_TEST_SUITE_P(Models, ReaderRejects, testing::ValuesIn(kBroken),
                         [](const auto& i) { return std::string(i.param.name); });

TEST(Reader, FilesThatAreNoModels) {
  const test::TemporaryFolder folder;
  EXPECT_THAT(thrown([&] { read_model(folder / "missing.onnx"); }), IsError(Kind::kIo, "missing.onnx: can't open it"));
  EXPECT_THAT(thrown([&] { read_model(folder.path()); }), IsError(Kind::kIo, "directory"));
  EXPECT_THAT(thrown([&] { read_model(folder.write("empty.onnx", "")); }), IsError(Kind::kInvalidModel, "it is empty"));
  EXPECT_THAT(thrown([&] { read_model(folder.write("a.onnx", "Hello, this is a text file.")); }),
              IsError(Kind::kInvalidModel, "a.onnx: not a valid ONNX file"));
  EXPECT_THAT(thrown([&] { read_model("/dev/zero"); }), IsError(Kind::kIo, "isn't a regular file"));
}

std::string small_model() {
  Model m = parse_model(R"(
    <ir_version: 10, opset_import: ["" : 20, "local" : 1]>
    main (bool c, float["a + 1", 2] x, seq(float) s) => (float["a + 1", 2] y) <float[2] w = {1, 2}, string[1] t = {"abc"}> {
      z = Add(x, w)
      y = If (c) <then_branch = t () => (float[n, 2] r) { r = local.f<alpha = 1.0, list = [1, 2]>(z) },
                  else_branch = e () => (float[n, 2] q) { q = Mul(z, w) }>
    }
    <domain: "local", opset_import: ["" : 20]>
    f <alpha, list> (a) => (b) { k = Constant <value_float: float = @alpha> () b = Mul(a, k) })");
  return serialize_model(m);
}

// Reads what may be damaged: an Error or a model that can be written, never anything else.
void try_reading(const std::string& bytes) {
  try {
    Model m = read_model_bytes(bytes);
    m.graph->verify();
    serialize_model(m);
  } catch (const Error&) {
  }
}

TEST(Reader, TruncatedAnywhere) {
  const std::string bytes = small_model();
  ASSERT_NO_THROW(read_model_bytes(bytes));
  for (size_t n = 0; n < bytes.size(); ++n) try_reading(bytes.substr(0, n));
}

TEST(Reader, AnyBitFlipped) {
  const std::string bytes = small_model();
  for (size_t i = 0; i < bytes.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string broken = bytes;
      broken[i] = static_cast<char>(broken[i] ^ (1 << bit));
      try_reading(broken);
    }
}

TEST(Reader, AnyByteReplaced) {
  const std::string bytes = small_model();
  for (size_t i = 0; i < bytes.size(); ++i)
    for (const char c : {'\x00', '\x7f', '\x80', '\xff'}) {
      std::string broken = bytes;
      broken[i] = c;
      try_reading(broken);
    }
}

TEST(Reader, NestingBombs) {
  auto proto = empty_model();
  onnx::GraphProto* graph = proto.mutable_graph();
  for (int i = 0; i < 500; ++i) {
    auto& a = *add_node(*graph, "If", {}, {"y"}).add_attribute();
    a.set_name("then_branch");
    a.set_type(onnx::AttributeProto::GRAPH);
    graph = a.mutable_g();
  }
  EXPECT_THAT(thrown([&] { read(proto); }), IsError(Kind::kLimit, "nests deeper"));

  proto = empty_model();
  onnx::TypeProto* type = proto.mutable_graph()->add_input()->mutable_type();
  proto.mutable_graph()->mutable_input(0)->set_name("x");
  for (int i = 0; i < 500; ++i) type = type->mutable_sequence_type()->mutable_elem_type();
  type->mutable_tensor_type();
  EXPECT_THAT(thrown([&] { read(proto); }), IsError(Kind::kInvalidModel, "nests too deeply"));
}

// ---- Test data

TEST(ReadTensorFile, TensorsSequencesOptionals) {
  const test::TemporaryFolder folder;
  const Tensor t = Tensor::from<float>({2}, {1, 2});
  const auto tensor_type = ValueType::of(DataType::kFloat);
  const Datum tensor = read_tensor_file(folder.write("t.pb", serialize_tensor(t, "t")), tensor_type);
  EXPECT_EQ(tensor.tensor().to_double(), t.to_double());

  onnx::SequenceProto sequence;
  sequence.set_elem_type(onnx::SequenceProto::TENSOR);
  for (int i = 0; i < 3; ++i)
    sequence.add_tensor_values()->ParseFromString(serialize_tensor(Tensor::scalar<int64_t>(i)));
  const Datum list =
      read_tensor_file(folder.write("s.pb", sequence.SerializeAsString()), ValueType::sequence(tensor_type));
  ASSERT_EQ(list.elements().size(), 3u);
  EXPECT_EQ(list.elements()[2].tensor().to_int64(), std::vector<int64_t>{2});

  onnx::OptionalProto optional;
  const auto optional_type = ValueType::optional(ValueType::sequence(tensor_type));
  EXPECT_TRUE(read_tensor_file(folder.write("o.pb", optional.SerializeAsString()), optional_type).elements().empty());
  optional.set_elem_type(onnx::OptionalProto::SEQUENCE);
  *optional.mutable_sequence_value() = sequence;
  const Datum some = read_tensor_file(folder.write("o.pb", optional.SerializeAsString()), optional_type);
  EXPECT_EQ(some.elements().at(0).elements().size(), 3u);
}

onnx::ModelProto with_sparse_constant(const std::string& values, int64_t count) {
  auto proto = empty_model();
  auto& attribute = *add_node(*proto.mutable_graph(), "Constant", {}, {"c"}).add_attribute();
  attribute.set_name("sparse_value");
  attribute.set_type(onnx::AttributeProto::SPARSE_TENSOR);
  auto& sparse = *attribute.mutable_sparse_tensor();
  sparse.add_dims(8);
  sparse.mutable_values()->set_data_type(onnx::TensorProto::FLOAT);
  sparse.mutable_values()->add_dims(count);
  sparse.mutable_values()->set_raw_data(values);
  sparse.mutable_indices()->set_data_type(onnx::TensorProto::INT64);
  sparse.mutable_indices()->add_dims(count);
  for (int64_t i = 0; i < count; ++i) sparse.mutable_indices()->add_int64_data(2 * i);
  return proto;
}

// With 4 floats the data is as long as a reference (see wire.h).
TEST(Reader, SparseConstantsOfRawData) {
  for (const size_t count : {3u, 4u}) {
    std::vector<float> values{1.5f, -2, 3, 4};
    values.resize(count);
    const std::string bytes(reinterpret_cast<const char*>(values.data()), count * sizeof(float));
    const Model m = read(with_sparse_constant(bytes, static_cast<int64_t>(count)));
    std::vector<double> dense(8);
    for (size_t i = 0; i < count; ++i) dense[2 * i] = static_cast<double>(values[i]);
    EXPECT_EQ(m.graph->nodes().front()->output()->constant()->to_double(), dense);
  }
}

// What the reader doesn't model is written as it was read, data of any length included.
TEST(Reader, SparseAttributesOfOtherNodesAreKept) {
  auto proto = with_sparse_constant(std::string(16, '\x7f'), 4);
  auto& node = *proto.mutable_graph()->mutable_node(0);
  node.set_op_type("Other");
  node.set_domain("vendor");
  auto& import = *proto.add_opset_import();
  import.set_domain("vendor");
  import.set_version(1);
  Model model = read(proto);
  onnx::ModelProto again;
  ASSERT_TRUE(again.ParseFromString(serialize_model(model)));
  EXPECT_EQ(again.graph().node(0).attribute(0).SerializeAsString(), node.attribute(0).SerializeAsString());
}

}  // namespace
}  // namespace attune
