#include "graph/io/graph_reader.h"

#include <fmt/format.h>

#include <unordered_set>

#include "graph/constant_node.h"

namespace attune {
namespace {

using onnx::AttributeProto;

[[noreturn]] void invalid(std::string message) { throw Error(Error::Kind::kInvalidModel, std::move(message)); }

std::string domain_of(const std::string& domain) { return domain == "ai.onnx" ? std::string() : domain; }

// What the attribute holds, whatever its type field says; UNDEFINED if it holds nothing.
AttributeProto::AttributeType content_of(const AttributeProto& a) {
  AttributeProto::AttributeType found = AttributeProto::UNDEFINED;
  const auto note = [&](bool there, AttributeProto::AttributeType type) {
    if (!there) return;
    if (found != AttributeProto::UNDEFINED) invalid("it holds several values");
    found = type;
  };
  note(a.has_f(), AttributeProto::FLOAT);
  note(a.has_i(), AttributeProto::INT);
  note(a.has_s(), AttributeProto::STRING);
  note(a.has_t(), AttributeProto::TENSOR);
  note(a.has_g(), AttributeProto::GRAPH);
  note(a.has_sparse_tensor(), AttributeProto::SPARSE_TENSOR);
  note(a.has_tp(), AttributeProto::TYPE_PROTO);
  note(a.floats_size() > 0, AttributeProto::FLOATS);
  note(a.ints_size() > 0, AttributeProto::INTS);
  note(a.strings_size() > 0, AttributeProto::STRINGS);
  note(a.tensors_size() > 0, AttributeProto::TENSORS);
  note(a.graphs_size() > 0, AttributeProto::GRAPHS);
  note(a.sparse_tensors_size() > 0, AttributeProto::SPARSE_TENSORS);
  note(a.type_protos_size() > 0, AttributeProto::TYPE_PROTOS);
  return found;
}

// The attribute's type. A missing type field is what the content says; a missing number or string is its default
// (writers of proto3 leave zeros out).
AttributeProto::AttributeType type_of(const AttributeProto& a) {
  const auto content = content_of(a);
  if (a.type() == AttributeProto::UNDEFINED) {
    if (content == AttributeProto::UNDEFINED) invalid("it holds nothing");
    return content;
  }
  if (content != AttributeProto::UNDEFINED && content != a.type())
    invalid(fmt::format("its type is {} and it holds {}", static_cast<int>(a.type()), static_cast<int>(content)));
  const bool needs_content = a.type() == AttributeProto::TENSOR || a.type() == AttributeProto::GRAPH ||
                             a.type() == AttributeProto::SPARSE_TENSOR || a.type() == AttributeProto::TYPE_PROTO;
  if (needs_content && content == AttributeProto::UNDEFINED) invalid("it holds nothing");
  return a.type();
}

template <class Out, class In>
std::vector<Out> to_vector(const In& values) {
  return {values.begin(), values.end()};
}

}  // namespace

void GraphReader::define(std::string_view name, Value* value, Scope& scope) {
  if (!scope.values.emplace(name, value).second) invalid(fmt::format("two values are named '{}'", name));
}

Value* GraphReader::find(std::string_view name, const Scope& scope) {
  for (const Scope* s = &scope; s; s = s->outer)
    if (const auto it = s->values.find(name); it != s->values.end()) return it->second;
  return nullptr;
}

void GraphReader::add_initializer(const onnx::TensorProto& proto, Tensor tensor, Graph& graph, Scope& scope) {
  if (proto.name().empty()) invalid("an initializer has no name");
  Value* value = nullptr;
  const auto it = scope.values.find(proto.name());
  if (it != scope.values.end() && it->second->is_graph_input()) {
    value = it->second;
    if (value->default_value()) invalid(fmt::format("two initializers are named '{}'", proto.name()));
    graph.set_default(value, std::move(tensor));
  } else {
    Dims dims;
    for (const int64_t d : shape_of(proto)) dims.emplace_back(d);
    value = graph.add_constant(std::move(tensor), proto.name());
    if (!value->default_value()->defined()) value->set_type(ValueType::of(data_type_of(proto.data_type()), dims));
    define(proto.name(), value, scope);
  }
  if (!proto.doc_string().empty()) value->doc = proto.doc_string();
  if (proto.metadata_props_size() > 0) value->metadata = to_map(proto.metadata_props());
}

void GraphReader::read_initializers(const onnx::GraphProto& proto, Graph& graph, Scope& scope) {
  for (const auto& t : proto.initializer()) add_initializer(t, tensors_.read(t), graph, scope);
  for (const auto& sparse : proto.sparse_initializer()) {
    onnx::TensorProto dense;
    dense.set_name(sparse.values().name());
    dense.set_data_type(sparse.values().data_type());
    dense.mutable_dims()->CopyFrom(sparse.dims());
    dense.set_doc_string(sparse.values().doc_string());
    add_initializer(dense, tensors_.read(sparse), graph, scope);
  }
}

Node* GraphReader::add_node(const onnx::NodeProto& proto, Graph& graph, Scope& scope) {
  Node* node = graph.add_node(domain_of(proto.domain()), proto.op_type(), {}, 0);
  node->name = proto.name();
  node->overload = proto.overload();
  node->doc = proto.doc_string();
  node->metadata = to_map(proto.metadata_props());
  if (proto.device_configurations_size() > 0) {
    onnx::NodeProto kept;
    kept.mutable_device_configurations()->CopyFrom(proto.device_configurations());
    node->device_configurations = kept.SerializeAsString();
  }
  for (const std::string& name : proto.output()) node->add_output(name);
  within([&] { return node->label(); },
         [&] {
           if (node->type().empty()) invalid("it has no operator");
           for (size_t i = 0; i < node->output_count(); ++i)
             if (!node->output(i)->name().empty()) define(proto.output(static_cast<int>(i)), node->output(i), scope);
         });
  for (size_t i = node->output_count(); i-- > 0;)
    if (node->output(i)->name().empty()) node->remove_output(i);
  return node;
}

void GraphReader::connect(const PendingNode& pending, const Scope& scope) {
  const auto& [proto, node] = pending;
  within([&, n = node] { return n->label(); },
         [&, p = proto, n = node] {
           for (int i = 0; i < p->input_size(); ++i) {
             const std::string& name = p->input(i);
             Value* value = name.empty() ? nullptr : find(name, scope);
             if (!value && !name.empty()) invalid(fmt::format("input {} is '{}', which nothing defines", i, name));
             n->set_input(static_cast<size_t>(i), value);
           }
           std::unordered_set<std::string_view> seen;
           for (const auto& a : p->attribute())
             within([&] { return "attribute '" + a.name() + "'"; },
                    [&] {
                      if (a.name().empty()) invalid("it has no name");
                      if (!seen.insert(a.name()).second) invalid("it is there twice");
                      read_attribute(a, n, scope);
                    });
           normalize_constant(*n);
         });
}

void GraphReader::read_attribute(const AttributeProto& proto, Node* node, const Scope& scope) {
  if (!proto.ref_attr_name().empty()) {
    if (!in_function_) invalid("it refers to an attribute of a function, outside of a function");
    node->set(proto.name(), AttributeReference{proto.ref_attr_name(), static_cast<int>(proto.type())});
    return;
  }
  switch (type_of(proto)) {
    case AttributeProto::GRAPH:
      Graph::attach(read(proto.g(), &scope), node, proto.name());
      return;
    case AttributeProto::GRAPHS: {
      std::vector<std::shared_ptr<Graph>> graphs;
      for (const auto& g : proto.graphs()) graphs.push_back(read(g, &scope));
      Graph::attach(std::move(graphs), node, proto.name());
      return;
    }
    case AttributeProto::SPARSE_TENSOR:
      if (node->is("Constant") && proto.name() == "sparse_value") {
        node->set("value", tensors_.read_whole(proto.sparse_tensor()));
        return;
      }
      [[fallthrough]];
    default:
      node->set(proto.name(), read_plain_attribute(proto));
  }
}

Attribute GraphReader::read_plain_attribute(const AttributeProto& proto) {
  switch (type_of(proto)) {
    case AttributeProto::FLOAT:
      return proto.f();
    case AttributeProto::INT:
      return int64_t{proto.i()};
    case AttributeProto::STRING:
      return proto.s();
    case AttributeProto::TENSOR:
      return tensors_.read(proto.t());
    case AttributeProto::TYPE_PROTO:
      return to_type(proto.tp());
    case AttributeProto::FLOATS:
      return to_vector<float>(proto.floats());
    case AttributeProto::INTS:
      return to_vector<int64_t>(proto.ints());
    case AttributeProto::STRINGS:
      return to_vector<std::string>(proto.strings());
    case AttributeProto::TENSORS: {
      std::vector<Tensor> tensors;
      for (const auto& t : proto.tensors()) tensors.push_back(tensors_.read(t));
      return tensors;
    }
    case AttributeProto::GRAPH:
    case AttributeProto::GRAPHS:
      throw Error(Error::Kind::kUnsupported, "a graph as the default of a function's attribute");
    default:
      return UnmodelledAttribute{proto.SerializeAsString()};
  }
}

void GraphReader::read_nodes(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& protos, Graph& graph,
                             Scope& scope) {
  std::vector<PendingNode> pending;
  pending.reserve(static_cast<size_t>(protos.size()));
  for (const auto& n : protos) pending.push_back({&n, add_node(n, graph, scope)});
  for (const PendingNode& n : pending) connect(n, scope);
}

std::shared_ptr<Graph> GraphReader::read(const onnx::GraphProto& proto) { return read(proto, nullptr); }

std::shared_ptr<Graph> GraphReader::read(const onnx::GraphProto& proto, const Scope* outer) {
  const auto where = [&] { return "graph '" + proto.name() + "'"; };
  return within(where, [&] {
    auto graph = std::make_shared<Graph>();
    graph->name = proto.name();
    graph->doc = proto.doc_string();
    graph->metadata = to_map(proto.metadata_props());
    Scope scope{outer, {}};

    std::unordered_set<std::string_view> constants;
    if (initializers_are_inputs_)
      for (const auto& t : proto.initializer()) constants.insert(t.name());
    for (const auto& info : proto.input()) {
      if (info.name().empty()) invalid("an input has no name");
      if (constants.contains(info.name())) continue;
      Value* input = within([&] { return "input '" + info.name() + "'"; },
                            [&] { return graph->add_input(info.name(), to_type(info.type())); });
      input->doc = info.doc_string();
      input->metadata = to_map(info.metadata_props());
      define(info.name(), input, scope);
    }
    read_initializers(proto, *graph, scope);
    read_nodes(proto.node(), *graph, scope);

    // Types of what isn't an input or constant: those know their own.
    const auto note_type = [&](const onnx::ValueInfoProto& info) {
      const auto it = scope.values.find(info.name());
      if (it == scope.values.end()) return;
      Value* value = it->second;
      if (value->producer() && info.has_type())
        within([&] { return "value '" + info.name() + "'"; }, [&] { value->set_type(to_type(info.type())); });
      if (!info.doc_string().empty()) value->doc = info.doc_string();
      if (info.metadata_props_size() > 0) value->metadata = to_map(info.metadata_props());
    };
    for (const auto& info : proto.value_info()) note_type(info);
    for (const auto& info : proto.output()) {
      Value* value = find(info.name(), scope);
      if (!value) invalid(fmt::format("output '{}' is defined by nothing", info.name()));
      if (value->graph() != graph.get()) {
        // A value of an outer graph: it becomes one of this graph, so that outputs are always the graph's own.
        value = graph->add_node("", "Identity", {value})->output();
        value->set_name(info.name());
        scope.values[info.name()] = value;
      }
      note_type(info);
      graph->add_output(value);
    }
    for (const auto& annotation : proto.quantization_annotation())
      if (const auto it = scope.values.find(annotation.tensor_name()); it != scope.values.end())
        it->second->quantization = to_map(annotation.quant_parameter_tensor_names());
    graph->sort();
    return graph;
  });
}

Function GraphReader::read(const onnx::FunctionProto& proto) {
  return within("function '" + proto.name() + "'", [&] {
    Function f;
    f.domain = domain_of(proto.domain());
    f.name = proto.name();
    f.overload = proto.overload();
    f.doc = proto.doc_string();
    f.metadata = to_map(proto.metadata_props());
    for (const auto& import : proto.opset_import()) f.opset_imports[domain_of(import.domain())] = import.version();
    f.attributes = to_vector<std::string>(proto.attribute());
    f.body = std::make_shared<Graph>();
    f.body->name = proto.name();

    in_function_ = true;
    Scope scope{nullptr, {}};
    for (const auto& a : proto.attribute_proto())
      within([&] { return "attribute '" + a.name() + "'"; },
             [&] { f.attribute_defaults.insert_or_assign(a.name(), read_plain_attribute(a)); });
    for (const std::string& name : proto.input()) {
      if (name.empty()) invalid("an input has no name");
      define(name, f.body->add_input(name, {}), scope);
    }
    read_nodes(proto.node(), *f.body, scope);
    for (const auto& info : proto.value_info()) {
      const auto it = scope.values.find(info.name());
      if (it != scope.values.end() && info.has_type()) it->second->set_type(to_type(info.type()));
    }
    for (const std::string& name : proto.output()) {
      Value* value = find(name, scope);
      if (!value) invalid(fmt::format("output '{}' is defined by nothing", name));
      f.body->add_output(value);
    }
    f.body->sort();
    in_function_ = false;
    return f;
  });
}

}  // namespace attune
