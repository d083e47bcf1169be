#include "ops/schema/expand.h"

#include <onnx/defs/schema.h>

#include <algorithm>
#include <set>

#include "graph/io/reader.h"
#include "graph/io/writer.h"
#include "ops/schema/attention_forms.h"
#include "ops/schema/convolution_forms.h"
#include "ops/schema/quantized_forms.h"
#include "ops/schema/schemas.h"

namespace attune {
namespace {

int64_t imported(const std::map<std::string, int64_t>& opsets, const std::string& domain) {
  const auto it = opsets.find(domain);
  return it == opsets.end() ? 0 : it->second;
}

// The model of one node, in which each input is a graph input of the type the graph knows.
onnx::ModelProto single_node(const Node& node, const std::map<std::string, int64_t>& opset_imports) {
  Model model;
  model.ir_version = 10;
  model.opset_imports = opset_imports;
  std::vector<Value*> inputs;
  for (size_t i = 0; i < node.inputs().size(); ++i) {
    const Value* v = node.input(i);
    inputs.push_back(v ? model.graph->add_input("input" + std::to_string(i), v->type()) : nullptr);
  }
  Attributes attributes;
  std::vector<std::pair<std::string, std::shared_ptr<Graph>>> bodies;
  for (const auto& [name, attribute] : node.attributes()) {
    if (const auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute)) {
      if ((*body)->captured().empty()) bodies.emplace_back(name, (*body)->clone());
    } else {
      attributes.emplace(name, attribute);
    }
  }
  Node* copy = model.graph->add_node(node.domain(), node.type(), inputs, node.output_count(), std::move(attributes));
  for (auto& [name, body] : bodies) Graph::attach(std::move(body), copy, name);
  for (size_t i = node.output_count(); i-- > 0;) {
    if (node.output(i)) {
      model.graph->add_output(copy->output(i));
    } else {
      copy->remove_output(i);
    }
  }
  onnx::ModelProto proto;
  proto.ParseFromString(serialize_model(model));
  return proto;
}

bool context_body(const onnx::OpSchema& schema, const Node& node, const std::map<std::string, int64_t>& opset_imports,
                  int64_t version, onnx::FunctionProto& body) {
  const onnx::ModelProto proto = single_node(node, opset_imports);
  const onnx::NodeProto& node_proto = proto.graph().node(0);
  std::vector<onnx::TypeProto> types(static_cast<size_t>(node_proto.input_size()));
  for (size_t i = 0; i < types.size(); ++i)
    for (const auto& input : proto.graph().input())
      if (input.name() == node_proto.input(static_cast<int>(i))) types[i] = input.type();
  const onnx::FunctionBodyBuildContextImpl context(node_proto, types);
  // Bodies of operators outside the standard domain are chosen by the standard opset they are written in.
  const auto versions = schema.context_dependent_function_opset_versions();
  const int64_t standard = imported(opset_imports, "");
  if (!node.domain().empty() && std::any_of(versions.begin(), versions.end(), [&](int v) { return v <= standard; }))
    version = standard;
  return schema.BuildContextDependentFunction(context, body, static_cast<int>(version));
}

// Attributes with a default in the schema become attributes with a default of the function.
void add_defaults(const onnx::OpSchema& schema, onnx::FunctionProto& body) {
  for (const auto& [name, attribute] : schema.attributes()) {
    if (!attribute.default_value.has_name()) continue;
    auto* names = body.mutable_attribute();
    names->erase(std::remove(names->begin(), names->end(), name), names->end());
    const auto& with_default = body.attribute_proto();
    if (std::none_of(with_default.begin(), with_default.end(), [&](const auto& a) { return a.name() == name; }))
      *body.add_attribute_proto() = attribute.default_value;
  }
}

// Bodies leave out outputs that the node leaves out: the last ones go, those in between get something to be.
void define_outputs(onnx::FunctionProto& body) {
  std::set<std::string> defined(body.input().begin(), body.input().end());
  for (const auto& node : body.node()) defined.insert(node.output().begin(), node.output().end());
  while (body.output_size() > 0 && !defined.contains(body.output(body.output_size() - 1)))
    body.mutable_output()->RemoveLast();
  for (const std::string& output : body.output()) {
    if (defined.contains(output)) continue;
    onnx::NodeProto* node = body.add_node();
    node->set_op_type("Identity");
    node->add_input(body.input(0));
    node->add_output(output);
  }
}

// Attentions of other domains run as ours, quantised operators and convolutions as standard ones; nothing where they
// can't.
std::optional<Function> form_of(const Node& node, const std::map<std::string, int64_t>& opset_imports) {
  try {
    if (auto form = quantized_form(node)) return form;
    if (auto form = convolution_form(node)) return form;
    return attention_form(node, imported(opset_imports, ""));
  } catch (const Error& e) {
    if (e.kind() != Error::Kind::kUnsupported) throw;
    return std::nullopt;
  }
}

}  // namespace

std::optional<Function> schema_function(const Node& node, const std::map<std::string, int64_t>& opset_imports) {
  if (auto form = form_of(node, opset_imports)) return form;
  register_schemas();
  const int64_t version = imported(opset_imports, node.domain());
  const onnx::OpSchema* schema = onnx::OpSchemaRegistry::Schema(node.type(), static_cast<int>(version), node.domain());
  if (!schema) return std::nullopt;
  onnx::FunctionProto body;
  if (const auto* fixed = schema->GetFunction(static_cast<int>(version))) {
    body = *fixed;
  } else if (!schema->HasContextDependentFunction() || !context_body(*schema, node, opset_imports, version, body)) {
    return std::nullopt;
  }
  add_defaults(*schema, body);
  define_outputs(body);
  body.set_name(node.type());
  body.set_domain("ai.attune.body");

  onnx::ModelProto holder;
  holder.set_ir_version(10);
  for (const auto& import : body.opset_import()) *holder.add_opset_import() = import;
  holder.mutable_graph()->set_name("holder");
  *holder.add_functions() = body;
  Model model = read_model_bytes(holder.SerializeAsString());
  return std::move(model.functions.at(0));
}

}  // namespace attune
