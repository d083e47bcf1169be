// Integers computed from shapes, rewritten to be computed from sizes of graph inputs, or to be constants.
#include <algorithm>
#include <optional>

#include "ops/infer/infer.h"
#include "passes/passes.h"
#include "passes/size_builder.h"

namespace attune {
namespace {

class Simplifier {
 public:
  explicit Simplifier(const Model& model) : inference_(model), builder_(*model.graph) {}

  size_t run(Graph& graph) {
    for (Node* n : graph.topological_order()) {
      for (Graph* body : n->subgraphs()) run(*body);
      if (n->is("Reshape")) write_target_out(*n);
      for (size_t i = 0; i < n->inputs().size(); ++i) simplify_input(*n, i);
    }
    return changes_;
  }

 private:
  // A Reshape whose sizes are constants, sizes of its input at the same axis (0), and at most one other (-1).
  void write_target_out(Node& n) {
    const Value* x = n.input(0);
    const auto& result = n.output() ? n.output()->tensor_type().shape : std::optional<Dims>();
    if (!result || !n.input(1) || n.input(1)->constant()) return;
    std::vector<int64_t> target;
    int inferred = 0;
    for (size_t i = 0; i < result->size(); ++i) {
      const Dim& d = (*result)[i];
      if (const auto c = d.constant(); c && *c > 0) {
        target.push_back(*c);
      } else if (static_cast<int>(i) < x->tensor_type().rank() && d == x->tensor_type().dim(static_cast<int>(i))) {
        target.push_back(0);
      } else if (d.is(0)) {
        return;
      } else {
        target.push_back(-1);
        ++inferred;
      }
    }
    if (inferred > 1) return;
    n.attributes().erase("allowzero");
    n.set_input(1, n.graph()->add_constant(
                       Tensor::from<int64_t>({static_cast<int64_t>(target.size())}, std::span<const int64_t>(target))));
    ++changes_;
  }

  // Replaces an input that is a known expression, unless the node's own results are known, too (then their users are
  // what matters).
  void simplify_input(Node& n, size_t i) {
    Value* v = n.input(i);
    if (!v || !v->producer() || all_known(n)) return;
    const SymbolicTensor* contents = inference_.contents(v);
    if (!contents || contents->shape.size() > 1 || contents->type != DataType::kInt64) return;
    for (const Dim& d : contents->integers)
      if (!builder_.can_compute(d)) return;
    Value* simple =
        contents->shape.empty() ? builder_.scalar(contents->integers.at(0)) : builder_.vector(contents->integers);
    n.set_input(i, simple);
    ++changes_;
  }

  bool all_known(const Node& n) const {
    for (size_t o = 0; o < n.output_count(); ++o) {
      if (!n.output(o)) continue;
      if (n.output(o)->is_graph_output()) return false;
      const SymbolicTensor* c = inference_.contents(n.output(o));
      if (!c || !c->is_integer() || c->shape.size() > 1) return false;
      if (!std::all_of(c->integers.begin(), c->integers.end(), [&](const Dim& d) { return builder_.can_compute(d); }))
        return false;
    }
    return true;
  }

  Inference inference_;
  SizeBuilder builder_;
  size_t changes_ = 0;
};

}  // namespace

size_t simplify_shapes(PassContext& context) {
  const size_t changes = Simplifier(context.model).run(*context.model.graph);
  context.model.graph->erase_unused();
  return changes;
}

}  // namespace attune
