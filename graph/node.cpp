// Types of values, values and nodes; the graph that owns them is in graph.cpp.
#include <fmt/format.h>

#include <algorithm>

#include "graph/graph.h"

namespace attune {
namespace {

void remove_use(std::vector<Use>& uses, const Node* node, size_t index) {
  const auto it =
      std::find_if(uses.begin(), uses.end(), [&](const Use& u) { return u.node == node && u.index == index; });
  if (it == uses.end()) return;
  *it = uses.back();
  uses.pop_back();
}

void for_each_body(const Attributes& attributes, const std::function<void(const std::shared_ptr<Graph>&)>& f) {
  for (const auto& [name, attribute] : attributes) {
    if (const auto* g = std::get_if<std::shared_ptr<Graph>>(&attribute)) f(*g);
    if (const auto* list = std::get_if<std::vector<std::shared_ptr<Graph>>>(&attribute))
      for (const auto& g : *list) f(g);
  }
}

}  // namespace

std::string ValueType::to_string() const {
  switch (kind) {
    case Kind::kUnknown:
      return "unknown";
    case Kind::kTensor:
      return std::string(attune::name(tensor.element)) + (tensor.shape ? attune::to_string(*tensor.shape) : "(?)");
    case Kind::kSparseTensor:
      return "sparse_" + std::string(attune::name(tensor.element));
    case Kind::kSequence:
      return "seq(" + element->to_string() + ")";
    case Kind::kOptional:
      return "optional(" + element->to_string() + ")";
    case Kind::kMap:
      return "map(" + std::string(attune::name(key)) + "," + element->to_string() + ")";
  }
  return "unknown";
}

// ---- Value

bool Value::is_graph_output() const {
  const auto outputs = graph_->outputs();
  return std::find(outputs.begin(), outputs.end(), this) != outputs.end();
}

const Tensor* Value::constant() const noexcept {
  const Tensor* tensor = nullptr;
  if (initializer_ && !is_input_) tensor = &*initializer_;
  if (producer_ && producer_->is("Constant")) tensor = producer_->find<Tensor>("value");
  return tensor && tensor->defined() ? tensor : nullptr;
}

// ---- Node

void Node::set_input(size_t i, Value* value) {
  if (i >= inputs_.size()) inputs_.resize(i + 1, nullptr);
  if (inputs_[i]) remove_use(inputs_[i]->uses_, this, i);
  inputs_[i] = value;
  if (value) value->uses_.push_back({this, i});
}

void Node::trim_inputs() {
  while (!inputs_.empty() && !inputs_.back()) inputs_.pop_back();
}

Value* Node::add_output(std::string name) {
  auto v = std::unique_ptr<Value>(new Value);
  v->name_ = std::move(name);
  v->graph_ = graph_;
  v->producer_ = this;
  v->output_index_ = outputs_.size();
  outputs_.push_back(std::move(v));
  return outputs_.back().get();
}

void Node::remove_output(size_t i) {
  if (i < outputs_.size() && outputs_[i]) {
    if (!outputs_[i]->uses_.empty() || outputs_[i]->is_graph_output())
      throw Error(Error::Kind::kInternal, "an output in use was removed: " + label());
    outputs_[i].reset();
  }
  while (!outputs_.empty() && !outputs_.back()) outputs_.pop_back();
}

namespace {
template <class T>
T get_attribute(const Node& node, std::string_view name, T fallback, const char* wanted) {
  const auto it = node.attributes().find(name);
  if (it == node.attributes().end()) return fallback;
  if (const T* v = std::get_if<T>(&it->second)) return *v;
  throw Error(Error::Kind::kInvalidModel, fmt::format("{}: attribute '{}' is not {}", node.label(), name, wanted));
}
}  // namespace

int64_t Node::attr_int(std::string_view name, int64_t fallback) const {
  return get_attribute<int64_t>(*this, name, fallback, "an integer");
}
float Node::attr_float(std::string_view name, float fallback) const {
  return get_attribute<float>(*this, name, fallback, "a float");
}
std::string Node::attr_string(std::string_view name, std::string_view fallback) const {
  return get_attribute<std::string>(*this, name, std::string(fallback), "a string");
}
std::vector<int64_t> Node::attr_ints(std::string_view name, std::vector<int64_t> fallback) const {
  return get_attribute<std::vector<int64_t>>(*this, name, std::move(fallback), "a list of integers");
}

std::vector<Graph*> Node::subgraphs() const {
  std::vector<Graph*> out;
  for_each_body(attributes_, [&](const auto& g) { out.push_back(g.get()); });
  return out;
}

std::string Node::label() const {
  const std::string full = domain_.empty() ? type_ : domain_ + "." + type_;
  if (!name.empty()) return fmt::format("node '{}' ({})", name, full);
  for (const auto& o : outputs_)
    if (o && !o->name().empty()) return fmt::format("node of '{}' ({})", o->name(), full);
  return fmt::format("a node ({})", full);
}

}  // namespace attune
