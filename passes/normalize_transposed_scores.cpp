// Weights whose axes are put in another order in front of the values, as Einsum may ask for them, are computed in that
// order:  Transpose(Softmax(s q k^T + mask)) = Softmax(s Transpose(q k^T) + Transpose(mask))
#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <vector>

#include "passes/node_facts.h"
#include "passes/passes.h"
#include "passes/rules.h"

namespace attune {
namespace {

using pattern::any;
using pattern::Builder;
using pattern::Match;
using pattern::Op;
using pattern::Outcome;
using pattern::Pat;

using Axes = std::vector<int64_t>;

constexpr std::array kElementwise = {"Add", "Sub", "Mul", "Div", "Where", "Max", "Tanh", "Cast"};

bool keeps_matrices(const Axes& perm) {
  const auto last = static_cast<int64_t>(perm.size()) - 1;
  return perm.back() == last && perm[perm.size() - 2] == last - 1;
}

bool transposes_matrices(const Axes& perm) {
  const auto last = static_cast<int64_t>(perm.size()) - 1;
  return perm.back() == last - 1 && perm[perm.size() - 2] == last;
}

Axes composed(const Axes& first, const Axes& second) {
  Axes both;
  for (const int64_t axis : second) both.push_back(first[static_cast<size_t>(axis)]);
  return both;
}

// Whether `v` is a product of queries and keys behind factors and masks, of which another order of axes can be computed
// without a transpose of the product. All is used by one node alone.
bool is_product(const Value& v, const Axes& perm) {
  const Node* n = v.producer();
  const bool given = v.uses().size() != 1 || v.is_graph_output();
  if (!n || given || v.tensor_type().rank() != static_cast<int>(perm.size())) return false;
  if (n->is("Transpose")) {
    const Axes own = n->attr_ints("perm");
    return own.size() == perm.size() && is_product(*n->input(0), composed(own, perm));
  }
  if (n->is("MatMul")) {
    for (const Value* x : n->inputs())
      if (x->tensor_type().rank() != v.tensor_type().rank()) return false;
    return keeps_matrices(perm) || transposes_matrices(perm);
  }
  if (!is_one_of(*n, kElementwise)) return false;
  const auto is_known = [](const Value* x) { return x->tensor_type().has_rank(); };
  const auto is_part = [&](const Value* x) { return is_product(*x, perm); };
  return std::all_of(n->inputs().begin(), n->inputs().end(), is_known) &&
         std::any_of(n->inputs().begin(), n->inputs().end(), is_part);
}

// An operand that is broadcast, in another order of the axes that it is broadcast to.
Value* operand_in_order(Builder& b, Value* x, const Axes& perm) {
  const int rank = x->tensor_type().rank();
  if (rank == 0) return x;
  if (rank < static_cast<int>(perm.size())) {
    Axes added(perm.size() - static_cast<size_t>(rank));
    std::iota(added.begin(), added.end(), int64_t{0});
    x = b.unsqueeze(x, added);
  }
  return b.transpose(x, perm);
}

// is_product() holds.
Value* in_order(Builder& b, Value* v, const Axes& perm) {
  const Node* n = v->producer();
  if (n->is("Transpose")) return in_order(b, n->input(0), composed(n->attr_ints("perm"), perm));
  if (n->is("MatMul")) {
    if (std::is_sorted(perm.begin(), perm.end())) return v;
    const bool swapped = transposes_matrices(perm);
    return b.op("MatMul", {b.transpose(n->input(swapped ? 1 : 0), perm), b.transpose(n->input(swapped ? 0 : 1), perm)});
  }
  std::vector<Value*> operands;
  for (Value* x : n->inputs())
    operands.push_back(is_product(*x, perm) ? in_order(b, x, perm) : operand_in_order(b, x, perm));
  return b.op(n->type(), std::move(operands), n->attributes());
}

// Whether `v` is the left factor of a product, perhaps in another type.
bool feeds_product(const Value& v) {
  return std::any_of(v.uses().begin(), v.uses().end(), [](const Use& u) {
    return u.index == 0 && (u.node->is("MatMul") || (u.node->is("Cast") && feeds_product(*u.node->output())));
  });
}

Outcome rewrite(const Match& m, Builder& b) {
  const Axes perm = m.node("moved")->attr_ints("perm");
  const Node& softmax = *m.node("softmax");
  Value* scores = m["scores"];
  if (perm.size() < 3 || !is_product(*scores, perm))
    return m.refuse("scores", "are no product that can be computed in the order of axes that the values want");
  // Only one of two orders can be the one in which they are computed.
  const bool shared = softmax.output()->uses().size() > 1 || softmax.output()->is_graph_output();
  if (shared && (!feeds_product(*m.root()) || feeds_product(*softmax.output())))
    return m.refuse("softmax", "is also wanted in the order that it has");
  const int64_t axis = from_front(softmax.attr_int("axis", -1), static_cast<int64_t>(perm.size()));
  const auto now = std::find(perm.begin(), perm.end(), axis) - perm.begin();
  Node* n = b.node("", "Softmax", {in_order(b, scores, perm)}, 1, {{"axis", static_cast<int64_t>(now)}});
  n->name = softmax.name;
  Axes back(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) back[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  const Node* cast = m.node("cast");
  Outcome outcome(cast ? b.op("Cast", {n->output()}, cast->attributes()) : n->output());
  if (shared) outcome.also(softmax.output(), b.transpose(n->output(), back));
  return outcome;
}

}  // namespace

namespace rules {

pattern::Rule transposed_scores() {
  Pat softmax = Op("Softmax", "softmax").replaced()(any("scores"));
  return {"normalize_transposed_scores", Op("Transpose", "moved")(optional(Op("Cast", "cast"), softmax)), rewrite};
}

}  // namespace rules
}  // namespace attune
