// Operators of ai.attune become standard ones. Attention: ai.onnx::Attention where that computes the same, else its
// function body.
#include "graph/error.h"
#include "graph/inline.h"
#include "ops/infer/infer.h"
#include "ops/schema/attention_lowering.h"
#include "ops/schema/schemas.h"
#include "passes/attention_conversions.h"

namespace attune {
namespace {

// What stands for `node`, and why it isn't the standard Attention, if it could have been.
struct Lowered {
  Function function;
  std::string reason;
};

Lowered lower(const Node& node, int64_t opset) {
  if (!node.is("Attention", "ai.attune")) return {function_body(node, opset, {.branches = false}), {}};
  try {
    return {lowered_attention(node, opset), {}};
  } catch (const Error& e) {
    if (e.kind() != Error::Kind::kUnsupported) throw;
    return {function_body(node, opset, {.branches = false}), e.message()};
  }
}

}  // namespace

size_t lower_attention(PassContext& context) {
  std::vector<Node*> nodes;
  context.model.graph->for_each_node([&](Node& node) {
    if (node.domain() == "ai.attune") nodes.push_back(&node);
  });
  if (nodes.empty()) return 0;
  const Inference types(context.model);
  // All before the first is put in: bodies depend on types, and what is put in has none.
  std::vector<Lowered> all;
  for (const Node* node : nodes)
    all.push_back(within([&] { return node->label(); }, [&] { return lower(*node, context.model.opset()); }));
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Lowered& lowered = all[i];
    const std::string label = nodes[i]->label();
    inline_function(nodes[i], lowered.function);
    context.report.rewrites.push_back({"lower_attention", label, {}, {}});
    if (!lowered.reason.empty())
      context.report.notes.push_back(label + " became standard operators, not Attention: " + lowered.reason);
  }
  context.model.opset_imports.erase("ai.attune");
  return nodes.size();
}

}  // namespace attune
