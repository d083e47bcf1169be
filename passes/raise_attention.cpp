// Attention operators of other domains become ai.attune::Attention, rotary embeddings beside them standard operators;
// what asks for more than that is left, with the reason in the report. The forms are in ops/schema/attention_forms.h.
#include "graph/inline.h"
#include "ops/infer/infer.h"
#include "ops/schema/attention_forms.h"
#include "passes/attention_conversions.h"

namespace attune {
namespace {

std::vector<Node*> all_nodes(const Graph& graph) {
  std::vector<Node*> nodes;
  graph.for_each_node([&](Node& node) { nodes.push_back(&node); });
  return nodes;
}

// Gives 1 if the node became ours.
size_t raise(Node* node, PassContext& context) {
  std::optional<Function> form;
  try {
    form = attention_form(*node, context.model.opset());
  } catch (const Error& e) {
    if (e.kind() != Error::Kind::kUnsupported) throw;
    context.report.near_misses.push_back({"raise_attention", node->label(), node->type(), "", e.message()});
    return 0;
  }
  if (!form) return 0;
  const std::string label = node->label(), name = node->name;
  std::string result;
  for (Node* made : inline_function(node, *form)) {
    if (!made->is("Attention", "ai.attune")) continue;
    made->name = name;
    result = made->output()->name();
  }
  context.report.rewrites.push_back({"raise_attention", label, result, {}});
  return 1;
}

}  // namespace

size_t raise_attention(PassContext& context) {
  std::vector<Node*> candidates;
  for (Node* node : all_nodes(*context.model.graph))
    if (has_attention_form(*node)) candidates.push_back(node);
  if (candidates.empty()) return 0;
  const Inference types(context.model);  // forms depend on types
  size_t count = 0;
  for (Node* node : candidates)
    if (context.may_rewrite()) count += raise(node, context);
  if (count > 0) context.model.opset_imports.emplace("ai.attune", 1);
  return count;
}

}  // namespace attune
