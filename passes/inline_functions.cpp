#include "graph/inline.h"

#include "passes/passes.h"

namespace attune {
namespace {

// Calls in `graph` and its bodies, those of inlined bodies included.
size_t inline_calls(Graph& graph, const Model& model, int depth) {
  constexpr int kMaxDepth = 64;
  if (depth > kMaxDepth) throw Error(Error::Kind::kInvalidModel, "model-local functions call each other without end");
  size_t inlined = 0;
  std::vector<Node*> calls;
  for (Node* n : graph.topological_order()) {
    for (Graph* body : n->subgraphs()) inlined += inline_calls(*body, model, depth);
    if (model.find_function(n->domain(), n->type(), n->overload)) calls.push_back(n);
  }
  for (Node* call : calls) inline_function(call, *model.find_function(call->domain(), call->type(), call->overload));
  inlined += calls.size();
  return calls.empty() ? inlined : inlined + inline_calls(graph, model, depth + 1);
}

}  // namespace

size_t inline_functions(PassContext& context) {
  Model& model = context.model;
  const size_t inlined = inline_calls(*model.graph, model, 0);
  if (inlined == 0) return 0;
  for (const Function& f : model.functions)
    for (const auto& [domain, version] : f.opset_imports) model.opset_imports.try_emplace(domain, version);
  model.functions.clear();
  return inlined;
}

}  // namespace attune
