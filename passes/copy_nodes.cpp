#include "passes/passes.h"

namespace attune {

std::vector<Value*> copy_nodes(const Graph& body, Node* node, std::unordered_map<const Value*, Value*>& mapping) {
  Graph& graph = *node->graph();
  const auto resolve = [&](Value* v) {
    const auto it = mapping.find(v);
    return it == mapping.end() ? v : it->second;
  };
  for (const auto& constant : body.constants())
    mapping[constant.get()] = graph.add_constant(*constant->default_value());
  for (Node* n : body.topological_order()) {
    std::vector<Value*> inputs;
    for (Value* v : n->inputs()) inputs.push_back(v ? resolve(v) : nullptr);
    Node* copy = graph.insert_node(node, n->domain(), n->type(), std::move(inputs), n->output_count());
    copy->name = n->name;
    copy->overload = n->overload;
    copy->doc = n->doc;
    copy->metadata = n->metadata;
    for (const auto& [name, attribute] : n->attributes()) {
      if (const auto* g = std::get_if<std::shared_ptr<Graph>>(&attribute))
        Graph::attach((*g)->clone(&mapping), copy, name);
      else
        copy->set(name, attribute);
    }
    for (size_t i = 0; i < n->output_count(); ++i) {
      if (!n->output(i)) continue;
      copy->output(i)->set_type(n->output(i)->type());
      mapping[n->output(i)] = copy->output(i);
    }
  }
  std::vector<Value*> results;
  for (Value* v : body.outputs()) results.push_back(resolve(v));
  return results;
}

}  // namespace attune
