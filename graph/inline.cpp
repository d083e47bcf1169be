#include "graph/inline.h"

#include <fmt/format.h>

#include <string>
#include <unordered_map>
#include <utility>

#include "graph/constant_node.h"

namespace attune {
namespace {

using ValueMap = std::unordered_map<const Value*, Value*>;

Attribute copy_attribute(const Attribute& attribute, ValueMap& values) {
  if (const auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute)) return (*body)->clone(&values);
  if (const auto* bodies = std::get_if<std::vector<std::shared_ptr<Graph>>>(&attribute)) {
    std::vector<std::shared_ptr<Graph>> copies;
    for (const auto& body : *bodies) copies.push_back(body->clone(&values));
    return copies;
  }
  return attribute;
}

class Inliner {
 public:
  Inliner(Node* call, const Function& function) : call_(call), function_(function), graph_(*call->graph()) {}

  std::vector<Node*> run() {
    const Graph& body = *function_.body;
    if (call_->inputs().size() > body.inputs().size() || call_->output_count() > body.outputs().size())
      throw Error(Error::Kind::kInvalidModel, fmt::format("{}: {} inputs and {} outputs for function {} with {} and {}",
                                                          call_->label(), call_->inputs().size(), call_->output_count(),
                                                          function_.name, body.inputs().size(), body.outputs().size()));
    for (size_t i = 0; i < body.inputs().size(); ++i) values_[body.inputs()[i]] = call_->input(i);
    for (const auto& c : body.constants()) values_[c.get()] = graph_.add_constant(*c->constant());
    std::vector<Node*> nodes;
    for (const Node* node : body.topological_order()) nodes.push_back(copy(*node));
    replace_outputs();
    graph_.erase(call_);
    return nodes;
  }

 private:
  // The attribute that a reference stands for; null if the call doesn't set it and there is no default.
  const Attribute* referenced(const AttributeReference& reference) const {
    if (const auto it = call_->attributes().find(reference.name); it != call_->attributes().end()) return &it->second;
    const auto it = function_.attribute_defaults.find(reference.name);
    return it == function_.attribute_defaults.end() ? nullptr : &it->second;
  }

  Attributes resolve(const Attributes& attributes) {
    Attributes out;
    for (const auto& [name, attribute] : attributes) {
      const auto* reference = std::get_if<AttributeReference>(&attribute);
      const Attribute* source = reference ? referenced(*reference) : &attribute;
      if (source) out.emplace(name, copy_attribute(*source, values_));
    }
    return out;
  }

  void resolve_nested(Node& node) {
    for (Graph* body : node.subgraphs())
      body->for_each_node([&](Node& inner) {
        std::vector<std::pair<std::string, AttributeReference>> references;
        for (const auto& [name, attribute] : inner.attributes())
          if (const auto* r = std::get_if<AttributeReference>(&attribute)) references.emplace_back(name, *r);
        for (const auto& [name, reference] : references) {
          const Attribute* source = referenced(reference);
          if (source) {
            inner.set(name, copy_attribute(*source, values_));
          } else {
            inner.attributes().erase(name);
          }
        }
        normalize_constant(inner);
      });
  }

  Node* copy(const Node& node) {
    std::vector<Value*> inputs;
    for (const Value* v : node.inputs()) inputs.push_back(v ? values_.at(v) : nullptr);
    Node* made = graph_.insert_node(call_, node.domain(), node.type(), std::move(inputs), node.output_count(),
                                    resolve(node.attributes()));
    normalize_constant(*made);
    made->overload = node.overload;
    // Names are unique in a file: what has none by itself, or none for the call, gets one when it is written.
    if (!call_->name.empty() && !node.name.empty()) made->name = call_->name + "/" + node.name;
    for (size_t i = node.output_count(); i-- > 0;) {
      const Value* from = node.output(i);
      if (!from) {
        made->remove_output(i);
        continue;
      }
      values_[from] = made->output(i);
    }
    resolve_nested(*made);
    return made;
  }

  void replace_outputs() {
    for (size_t i = 0; i < call_->output_count(); ++i) {
      Value* from = call_->output(i);
      Value* to = values_.at(function_.body->outputs()[i]);
      if (!from || !to) continue;
      if (to->type().kind == ValueType::Kind::kUnknown) to->set_type(from->type());
      graph_.replace_all_uses(from, to);
    }
  }

  Node* call_;
  const Function& function_;
  Graph& graph_;
  ValueMap values_;
};

size_t count_nodes(const Graph& graph) {
  size_t count = 0;
  graph.for_each_node([&](Node&) { ++count; });
  return count;
}

class CallInliner {
 public:
  CallInliner(const Model& model, const ReplaceCall& replace) : replace_(replace) {
    size_t nodes = count_nodes(*model.graph);
    for (const Function& f : model.functions) {
      functions_.emplace(key(f.domain, f.name, f.overload), &f);
      nodes += count_nodes(*f.body);
    }
    most_nodes_ = kAlwaysAllowed + kMostTimes * nodes;
  }

  size_t run(Graph& graph) {
    if (!functions_.empty()) visit(graph, 0);
    return calls_;
  }

 private:
  static constexpr size_t kAlwaysAllowed = 20'000, kMostTimes = 100;
  static constexpr int kMaxDepth = 200;  // of calls; bodies of control flow nest with them

  static std::string key(std::string_view domain, std::string_view name, std::string_view overload) {
    return fmt::format("{}\n{}\n{}", domain, name, overload);
  }

  void visit(Graph& graph, int depth) {
    for (Node* node : graph.topological_order()) visit(node, depth);
  }

  void visit(Node* node, int depth) {
    const auto it = functions_.find(key(node->domain(), node->type(), node->overload));
    if (it == functions_.end()) {
      for (Graph* body : node->subgraphs()) visit(*body, depth);
      return;
    }
    if (depth == kMaxDepth)
      throw Error(Error::Kind::kInvalidModel,
                  fmt::format("{}: functions call each other without end, or more than {} deep", node->label(), depth));
    ++calls_;
    const std::vector<Node*> inlined = replace_(node, *it->second);
    for (const Node* n : inlined) {
      ++nodes_;
      for (const Graph* body : n->subgraphs()) nodes_ += count_nodes(*body);
    }
    if (nodes_ > most_nodes_)
      throw Error(
          Error::Kind::kLimit,
          fmt::format("the calls of functions become more than {} nodes, which the model's size doesn't explain",
                      most_nodes_));
    for (Node* n : inlined) visit(n, depth + 1);
  }

  const ReplaceCall& replace_;
  std::unordered_map<std::string, const Function*> functions_;
  size_t most_nodes_ = 0, nodes_ = 0, calls_ = 0;
};

}  // namespace

std::vector<Node*> inline_function(Node* call, const Function& function) { return Inliner(call, function).run(); }

size_t inline_calls(Graph& graph, const Model& model, const ReplaceCall& replace) {
  return CallInliner(model, replace).run(graph);
}

void forget_types(const Graph& body) {
  for (Value* v : body.inputs()) v->set_type(ValueType());
  body.for_each_node([](const Node& n) {
    for (size_t i = 0; i < n.output_count(); ++i)
      if (n.output(i)) n.output(i)->set_type(ValueType());
  });
}

}  // namespace attune
