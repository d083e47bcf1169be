#include <unordered_map>

#include "ops/infer/infer.h"
#include "passes/passes.h"

namespace attune {
namespace {

class IfInliner {
 public:
  explicit IfInliner(const Model& model) : inference_(model) {}

  size_t run(Graph& graph) {
    for (Node* n : graph.topological_order()) {
      for (Graph* body : n->subgraphs()) run(*body);
      if (n->is("If")) inline_if(*n);
    }
    return inlined_;
  }

 private:
  void inline_if(Node& n) {
    const auto condition = inference_.scalar(n.input(0));
    if (!condition) return;
    const auto* branch = n.find<std::shared_ptr<Graph>>(*condition != 0 ? "then_branch" : "else_branch");
    if (!branch) return;
    std::unordered_map<const Value*, Value*> mapping;
    const std::vector<Value*> results = copy_nodes(**branch, &n, mapping);
    Graph& graph = *n.graph();
    for (size_t i = 0; i < n.output_count(); ++i)
      if (n.output(i)) graph.replace_all_uses(n.output(i), results.at(i));
    graph.erase(&n);
    ++inlined_;
  }

  Inference inference_;
  size_t inlined_ = 0;
};

}  // namespace

size_t inline_static_if(PassContext& context) { return IfInliner(context.model).run(*context.model.graph); }

}  // namespace attune
