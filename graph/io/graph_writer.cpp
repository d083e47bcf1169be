#include "graph/io/graph_writer.h"

#include <fmt/format.h>

#include <unordered_set>

#include "graph/io/tensor_proto.h"
#include "graph/io/wire.h"

namespace attune {
namespace {

using onnx::AttributeProto;

[[noreturn]] void internal(std::string message) { throw Error(Error::Kind::kInternal, std::move(message)); }

void write_info(const Value& value, onnx::ValueInfoProto& proto) {
  proto.set_name(std::string(value.name()));
  if (value.type().kind != ValueType::Kind::kUnknown || !value.type().unmodelled.empty())
    to_proto(value.type(), *proto.mutable_type());
  if (!value.doc.empty()) proto.set_doc_string(value.doc);
  to_proto(value.metadata, *proto.mutable_metadata_props());
}

bool worth_an_info(const Value& value) {
  const ValueType& type = value.type();
  // Readers refuse a tensor of no element type.
  const bool has_type = type.kind == ValueType::Kind::kTensor ? type.tensor.element != DataType::kUndefined
                                                              : type.kind != ValueType::Kind::kUnknown;
  return has_type || !type.unmodelled.empty() || !value.doc.empty() || !value.metadata.empty();
}

void write_annotation(const Value& value, onnx::GraphProto& proto) {
  if (value.quantization.empty()) return;
  auto& annotation = *proto.add_quantization_annotation();
  annotation.set_tensor_name(std::string(value.name()));
  to_proto(value.quantization, *annotation.mutable_quant_parameter_tensor_names());
}

}  // namespace

void GraphWriter::write(const Tensor& tensor, onnx::TensorProto& proto) {
  if (!tensor.defined()) internal("a tensor without data is written");
  proto.set_data_type(static_cast<int32_t>(tensor.type()));
  for (const int64_t size : tensor.shape()) proto.add_dims(size);
  if (tensor.type() == DataType::kString) {
    for (const std::string& s : tensor.strings()) proto.add_string_data(s);
    return;
  }
  const Tensor dense = tensor.to_contiguous();
  if (place_)
    if (const auto entries = place_(dense); !entries.empty()) {
      proto.set_data_location(onnx::TensorProto::EXTERNAL);
      to_proto(entries, *proto.mutable_external_data());
      return;
    }
  if (!tensor.contiguous()) kept_.push_back(dense);
  proto.set_raw_data(wire::encode({data_.size(), 0}));
  data_.emplace_back(reinterpret_cast<const char*>(dense.raw()), dense.bytes());
}

void GraphWriter::write_initializer(const Value& value, onnx::TensorProto& proto) {
  within([&] { return "constant '" + std::string(value.name()) + "'"; }, [&] { write(*value.default_value(), proto); });
  proto.set_name(std::string(value.name()));
  // An input's own notes are in its ValueInfoProto.
  if (value.is_graph_input()) return;
  if (!value.doc.empty()) proto.set_doc_string(value.doc);
  to_proto(value.metadata, *proto.mutable_metadata_props());
}

void GraphWriter::write(const std::string& name, const Attribute& attribute, AttributeProto& proto) {
  const auto set_type = [&](AttributeProto::AttributeType type) { proto.set_type(type); };
  if (const auto* unmodelled = std::get_if<UnmodelledAttribute>(&attribute)) {
    if (!proto.ParseFromString(unmodelled->serialized)) internal("attribute '" + name + "' can't be parsed again");
  } else if (const auto* f = std::get_if<float>(&attribute)) {
    proto.set_f(*f);
    set_type(AttributeProto::FLOAT);
  } else if (const auto* i = std::get_if<int64_t>(&attribute)) {
    proto.set_i(*i);
    set_type(AttributeProto::INT);
  } else if (const auto* s = std::get_if<std::string>(&attribute)) {
    proto.set_s(*s);
    set_type(AttributeProto::STRING);
  } else if (const auto* t = std::get_if<Tensor>(&attribute)) {
    write(*t, *proto.mutable_t());
    set_type(AttributeProto::TENSOR);
  } else if (const auto* g = std::get_if<std::shared_ptr<Graph>>(&attribute)) {
    write(**g, *proto.mutable_g());
    set_type(AttributeProto::GRAPH);
  } else if (const auto* ints = std::get_if<std::vector<int64_t>>(&attribute)) {
    proto.mutable_ints()->Assign(ints->begin(), ints->end());
    set_type(AttributeProto::INTS);
  } else if (const auto* floats = std::get_if<std::vector<float>>(&attribute)) {
    proto.mutable_floats()->Assign(floats->begin(), floats->end());
    set_type(AttributeProto::FLOATS);
  } else if (const auto* strings = std::get_if<std::vector<std::string>>(&attribute)) {
    for (const auto& string : *strings) proto.add_strings(string);
    set_type(AttributeProto::STRINGS);
  } else if (const auto* tensors = std::get_if<std::vector<Tensor>>(&attribute)) {
    for (const auto& tensor : *tensors) write(tensor, *proto.add_tensors());
    set_type(AttributeProto::TENSORS);
  } else if (const auto* graphs = std::get_if<std::vector<std::shared_ptr<Graph>>>(&attribute)) {
    for (const auto& graph : *graphs) write(*graph, *proto.add_graphs());
    set_type(AttributeProto::GRAPHS);
  } else if (const auto* type = std::get_if<ValueType>(&attribute)) {
    to_proto(*type, *proto.mutable_tp());
    set_type(AttributeProto::TYPE_PROTO);
  } else if (const auto* reference = std::get_if<AttributeReference>(&attribute)) {
    proto.set_ref_attr_name(reference->name);
    set_type(static_cast<AttributeProto::AttributeType>(reference->onnx_type));
  }
  proto.set_name(name);
}

void GraphWriter::write(const Node& node, onnx::NodeProto& proto) {
  if (!node.device_configurations.empty() && !proto.ParseFromString(node.device_configurations))
    internal(node.label() + ": its device configurations can't be parsed again");
  for (const Value* v : node.inputs()) proto.add_input(v ? std::string(v->name()) : std::string());
  for (size_t i = 0; i < node.output_count(); ++i)
    proto.add_output(node.output(i) ? std::string(node.output(i)->name()) : std::string());
  if (!node.name.empty()) proto.set_name(node.name);
  proto.set_op_type(node.type());
  if (!node.domain().empty()) proto.set_domain(node.domain());
  if (!node.overload.empty()) proto.set_overload(node.overload);
  if (!node.doc.empty()) proto.set_doc_string(node.doc);
  to_proto(node.metadata, *proto.mutable_metadata_props());
  within([&] { return node.label(); },
         [&] {
           for (const auto& [name, attribute] : node.attributes()) write(name, attribute, *proto.add_attribute());
         });
}

void GraphWriter::write(const Graph& graph, onnx::GraphProto& proto) {
  proto.set_name(graph.name.empty() ? "graph" : graph.name);
  if (!graph.doc.empty()) proto.set_doc_string(graph.doc);
  to_proto(graph.metadata, *proto.mutable_metadata_props());
  const std::unordered_set<const Value*> outputs(graph.outputs().begin(), graph.outputs().end());
  for (const Value* v : graph.inputs()) {
    write_info(*v, *proto.add_input());
    if (v->default_value()) write_initializer(*v, *proto.add_initializer());
    write_annotation(*v, proto);
  }
  for (const auto& v : graph.constants()) {
    write_initializer(*v, *proto.add_initializer());
    write_annotation(*v, proto);
  }
  for (const Node* n : graph.topological_order()) {
    write(*n, *proto.add_node());
    for (size_t i = 0; i < n->output_count(); ++i) {
      const Value* v = n->output(i);
      if (!v) continue;
      if (!outputs.contains(v) && worth_an_info(*v)) write_info(*v, *proto.add_value_info());
      write_annotation(*v, proto);
    }
  }
  for (const Value* v : graph.outputs()) write_info(*v, *proto.add_output());
}

void GraphWriter::write(const Function& function, onnx::FunctionProto& proto) {
  proto.set_domain(function.domain);
  proto.set_name(function.name);
  if (!function.overload.empty()) proto.set_overload(function.overload);
  if (!function.doc.empty()) proto.set_doc_string(function.doc);
  to_proto(function.metadata, *proto.mutable_metadata_props());
  for (const auto& [domain, version] : function.opset_imports) {
    auto& import = *proto.add_opset_import();
    import.set_domain(domain);
    import.set_version(version);
  }
  for (const auto& name : function.attributes) proto.add_attribute(name);
  for (const auto& [name, attribute] : function.attribute_defaults)
    write(name, attribute, *proto.add_attribute_proto());
  for (const Value* v : function.body->inputs()) {
    proto.add_input(std::string(v->name()));
    if (worth_an_info(*v)) write_info(*v, *proto.add_value_info());
  }
  for (const Value* v : function.body->outputs()) proto.add_output(std::string(v->name()));
  // A function has no initializers: its constants are nodes.
  for (const auto& v : function.body->constants()) {
    auto& node = *proto.add_node();
    node.set_op_type("Constant");
    node.add_output(std::string(v->name()));
    write("value", *v->default_value(), *node.add_attribute());
  }
  for (const Node* n : function.body->topological_order()) {
    write(*n, *proto.add_node());
    for (size_t i = 0; i < n->output_count(); ++i)
      if (const Value* v = n->output(i); v && worth_an_info(*v)) write_info(*v, *proto.add_value_info());
  }
}

void GraphWriter::write(const Model& model, onnx::ModelProto& proto) {
  if (!model.unmodelled.empty() && !proto.ParseFromString(model.unmodelled))
    internal("the model's training information can't be parsed again");
  proto.set_ir_version(model.ir_version);
  if (!model.producer_name.empty()) proto.set_producer_name(model.producer_name);
  if (!model.producer_version.empty()) proto.set_producer_version(model.producer_version);
  if (!model.domain.empty()) proto.set_domain(model.domain);
  if (!model.doc.empty()) proto.set_doc_string(model.doc);
  if (model.model_version != 0) proto.set_model_version(model.model_version);
  to_proto(model.metadata, *proto.mutable_metadata_props());
  for (const auto& [domain, version] : model.opset_imports) {
    auto& import = *proto.add_opset_import();
    import.set_domain(domain);
    import.set_version(version);
  }
  for (const Function& f : model.functions)
    within([&] { return "function '" + f.name + "'"; }, [&] { write(f, *proto.add_functions()); });
  write(*model.graph, *proto.mutable_graph());
}

}  // namespace attune
