#include "ops/portable.h"

#include <set>

#include "ops/op.h"

namespace attune {
namespace {

// The operator that a function of ai.attune stands for: "Attention_2" is Attention. Empty if it is none.
std::string operator_of(const std::string& function) {
  std::string base = function;
  const size_t underscore = function.rfind('_');
  if (underscore != std::string::npos && underscore + 1 < function.size() &&
      function.find_first_not_of("0123456789", underscore + 1) == std::string::npos)
    base = function.substr(0, underscore);
  return find_op(kAttuneDomain, base, 1) ? base : std::string();
}

}  // namespace

std::vector<Node*> attune_nodes(const Model& model) {
  std::vector<Node*> out;
  model.graph->for_each_node([&](Node& n) {
    if (n.domain() == kAttuneDomain) out.push_back(&n);
  });
  return out;
}

Node* retype(Node* node, const std::string& type) {
  Graph& g = *node->graph();
  Node* n = g.insert_node(node, std::string(kAttuneDomain), type, {node->inputs().begin(), node->inputs().end()},
                          node->output_count(), node->attributes());
  n->name = node->name;
  n->doc = node->doc;
  n->metadata = node->metadata;
  for (size_t i = 0; i < node->output_count(); ++i) {
    if (!node->output(i)) {
      n->remove_output(i);
      continue;
    }
    n->output(i)->set_type(node->output(i)->type());
    const std::string name(node->output(i)->name());
    g.replace_all_uses(node->output(i), n->output(i));
    if (n->output(i)->name().empty()) {
      node->output(i)->set_name({});
      n->output(i)->set_name(name);
    }
  }
  g.erase(node);
  return n;
}

size_t read_portable(Model& model) {
  std::set<std::string> embedded;
  for (const Function& f : model.functions)
    if (f.domain == kAttuneDomain && !operator_of(f.name).empty()) embedded.insert(f.name);
  if (embedded.empty()) return 0;
  size_t count = 0;
  for (Node* node : attune_nodes(model)) {
    if (!embedded.contains(node->type())) continue;
    const std::string type = operator_of(node->type());
    if (type != node->type()) retype(node, type);
    ++count;
  }
  std::erase_if(model.functions,
                [&](const Function& f) { return f.domain == kAttuneDomain && embedded.contains(f.name); });
  return count;
}

}  // namespace attune
