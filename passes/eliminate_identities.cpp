#include <algorithm>
#include <array>

#include "ops/infer/infer.h"
#include "passes/passes.h"
#include "passes/uniform_value.h"

namespace attune {
namespace {

bool same_shape(const Value& a, const Value& b) {
  const auto &x = a.tensor_type().shape, &y = b.tensor_type().shape;
  return x && y && *x == *y;
}

bool only_moves_sizes(const Node& n) {
  static constexpr std::array<std::string_view, 4> kTypes = {"Reshape", "Squeeze", "Unsqueeze", "Flatten"};
  return n.domain().empty() && std::find(kTypes.begin(), kTypes.end(), n.type()) != kTypes.end();
}

std::vector<int64_t> permutation(const Node& n) {
  std::vector<int64_t> perm = n.attr_ints("perm");
  if (perm.empty())
    for (int i = n.input(0)->tensor_type().rank() - 1; i >= 0; --i) perm.push_back(i);
  return perm;
}

class Eliminator {
 public:
  explicit Eliminator(const Model& model) : inference_(model) {}

  size_t run(Graph& graph) {
    for (Node* n : graph.topological_order()) {
      for (Graph* body : n->subgraphs()) run(*body);
      if (n->domain().empty() && n->input(0) && n->output(0)) simplify(*n);
    }
    return changes_;
  }

 private:
  void simplify(Node& n) {
    if (Value* same = input_it_equals(n)) return bypass(n, same);
    if (n.is("Transpose")) merge_transposes(n);
    if (n.is("Reshape")) merge_reshapes(n);
  }

  // The earlier value that the node's output equals; null if it can't be told.
  Value* input_it_equals(const Node& n) const {
    Value* x = n.input(0);
    if (n.is("Identity")) return x;
    if (n.is("Cast")) return n.output()->element_type() == x->element_type() && known(*x) ? x : boolean_round_trip(n);
    if (n.is("Concat") && n.inputs().size() == 1) return x;
    if (n.is("Transpose")) return keeps_order(n) ? x : nullptr;
    if (n.is("Dropout")) return drops_nothing(n) ? x : nullptr;
    if (n.is("Expand")) return same_shape(*x, *n.output()) ? x : nullptr;
    if (n.is("Slice")) return same_shape(*x, *n.output()) && steps_are_one(n) ? x : nullptr;
    if (n.is("Mul") || n.is("Div")) return factor_one(n);
    if (n.is("Add")) return summand_zero(n);
    if (n.is("Where")) return chosen_by_constant(n);
    if (only_moves_sizes(n)) return same_elements(n);
    return nullptr;
  }

  static bool known(const Value& v) { return v.element_type() != DataType::kUndefined; }

  // Cast of a bool to a number and back.
  static Value* boolean_round_trip(const Node& n) {
    const Node* inner = n.input(0)->producer();
    if (n.output()->element_type() != DataType::kBool || !inner || !inner->is("Cast")) return nullptr;
    return inner->input(0)->element_type() == DataType::kBool ? inner->input(0) : nullptr;
  }

  static bool keeps_order(const Node& n) {
    const std::vector<int64_t> perm = permutation(n);
    return !perm.empty() && std::is_sorted(perm.begin(), perm.end());
  }

  bool drops_nothing(const Node& n) const {
    if (n.output(1)) return false;
    return !n.input(2) || inference_.scalar(n.input(2)) == 0.0;
  }

  bool steps_are_one(const Node& n) const {
    if (!n.input(4)) return true;
    const auto steps = inference_.constant_integers(n.input(4));
    return steps && std::all_of(steps->begin(), steps->end(), [](int64_t s) { return s == 1; });
  }

  Value* factor_one(const Node& n) const {
    for (const size_t i : {size_t{1}, size_t{0}}) {
      Value* other = n.input(1 - i);
      if (i == 0 && n.is("Div")) break;
      if (inference_.scalar(n.input(i)) == 1.0 && same_shape(*other, *n.output())) return other;
    }
    return nullptr;
  }

  // The operand that zeros of its shape, or of a smaller one, are added to.
  Value* summand_zero(const Node& n) const {
    for (const size_t i : {size_t{1}, size_t{0}}) {
      Value* other = n.input(1 - i);
      if (same_shape(*other, *n.output()) && uniform_value(n.input(i), inference_) == 0.0) return other;
    }
    return nullptr;
  }

  // The operand that a condition of one value chooses.
  Value* chosen_by_constant(const Node& n) const {
    constexpr int64_t kMaxElements = 1 << 16;
    const Tensor* condition = n.input(0)->constant();
    if (!condition || condition->count() == 0 || condition->count() > kMaxElements) return nullptr;
    const std::vector<int64_t> values = condition->to_int64();
    if (std::any_of(values.begin(), values.end(), [&](int64_t v) { return v != values[0]; })) return nullptr;
    Value* chosen = n.input(values[0] != 0 ? 1 : 2);
    return same_shape(*chosen, *n.output()) ? chosen : nullptr;
  }

  // The value before a chain of nodes that only change the shape, if the shape is the same again.
  static Value* same_elements(const Node& n) {
    for (Value* v = n.input(0); v;) {
      if (same_shape(*v, *n.output())) return v;
      const Node* producer = v->producer();
      v = producer && only_moves_sizes(*producer) ? producer->input(0) : nullptr;
    }
    return nullptr;
  }

  void bypass(Node& n, Value* same) {
    Value* out = n.output();
    if (same->graph() != n.graph() || !same->producer() || same->constant() || same->is_graph_output()) {
      if (out->uses().empty()) return;
      // A graph output stays, but users need not wait for it.
      const std::vector<Use> uses(out->uses().begin(), out->uses().end());
      for (const Use& u : uses) u.node->set_input(u.index, same);
    } else {
      n.graph()->replace_all_uses(out, same);
    }
    ++changes_;
  }

  void merge_transposes(Node& n) {
    const Node* inner = n.input(0)->producer();
    if (!inner || !inner->is("Transpose")) return;
    const std::vector<int64_t> first = permutation(*inner), second = permutation(n);
    if (first.empty() || first.size() != second.size()) return;
    std::vector<int64_t> both;
    for (const int64_t axis : second) both.push_back(first[static_cast<size_t>(axis)]);
    n.set("perm", both);
    n.set_input(0, inner->input(0));
    ++changes_;
    if (keeps_order(n)) bypass(n, n.input(0));
  }

  // The target that makes `to` of `from`, of constants, sizes at the same place, and at most one other.
  static std::optional<std::vector<int64_t>> target_from(const Value& from, const Value& to) {
    const auto &before = from.tensor_type().shape, &after = to.tensor_type().shape;
    if (!before || !after) return std::nullopt;
    std::vector<int64_t> target;
    for (size_t i = 0; i < after->size(); ++i) {
      const auto size = (*after)[i].constant();
      if (size == 0) return std::nullopt;
      const bool same = i < before->size() && (*after)[i] == (*before)[i];
      target.push_back(size ? *size : same ? 0 : -1);
    }
    return std::count(target.begin(), target.end(), -1) <= 1 ? std::optional(target) : std::nullopt;
  }

  void merge_reshapes(Node& n) {
    const Node* inner = n.input(0)->producer();
    if (!inner || !only_moves_sizes(*inner)) return;
    // A 0 in the target means a size of the inner result.
    const auto target = inference_.integers(n.input(1));
    const auto unclear = [](const Dim& d) { return !d.known() || d.is(0); };
    if (!target || std::any_of(target->begin(), target->end(), unclear)) {
      const auto written = target_from(*inner->input(0), *n.output());
      if (!written) return;
      n.set_input(1, n.graph()->add_constant(Tensor::from<int64_t>({static_cast<int64_t>(written->size())},
                                                                   std::span<const int64_t>(*written))));
      n.attributes().erase("allowzero");
    }
    n.set_input(0, inner->input(0));
    ++changes_;
  }

  Inference inference_;
  size_t changes_ = 0;
};

}  // namespace

size_t eliminate_identities(PassContext& context) {
  const size_t changes = Eliminator(context.model).run(*context.model.graph);
  context.model.graph->erase_unused();
  return changes;
}

}  // namespace attune
