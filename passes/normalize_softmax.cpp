// A softmax written out is a Softmax:  exp(log softmax(x)),  exp(x - log(sum(exp(x)))), and
// exp(x - max(x)) / sum(exp(x - max(x))); over the rows of a tensor that is folded for it, one over the tensor
#include <cmath>
#include <optional>
#include <string>

#include "passes/node_facts.h"
#include "passes/passes.h"
#include "passes/rules.h"

namespace attune {
namespace {

using pattern::any;
using pattern::Builder;
using pattern::Match;
using pattern::one_of;
using pattern::Op;
using pattern::Outcome;
using pattern::Pat;

bool keeps_last_axis(const Value& v, const Inference& inference) {
  const Node& n = *v.producer();
  std::vector<int64_t> axes = n.attr_ints("axes");
  if (n.input(1)) axes = inference.constant_integers(n.input(1)).value_or(std::vector<int64_t>{});
  const int rank = n.input(0)->tensor_type().rank();
  return n.attr_int("keepdims", 1) == 1 && axes.size() == 1 && (axes[0] == -1 || (rank > 0 && axes[0] == rank - 1));
}

// Over the last axis, which stays with size 1.
Pat reduced(const char* type, const Pat& x) {
  return where(Op(type).further_inputs()(x), "a reduction of the last axis that keeps it", keeps_last_axis);
}

Outcome rewrite(const Match& m, Builder& b) {
  Node* n = b.node("", "Softmax", {m["x"]}, 1, {{"axis", int64_t{-1}}});
  n->name = m.root()->producer()->name;
  return n->output();
}

// Reshape(Softmax(Reshape(x))) that folds rows in front of the softmax and unfolds them behind it.
Outcome rewrite_folded(const Match& m, Builder& b) {
  const TensorType &x = m["x"]->tensor_type(), &rows = m["rows"]->tensor_type();
  if (m["unfolded"]->tensor_type().shape != x.shape || !(rows.dim(-1) == x.dim(-1)))
    return m.refuse("unfolded", "does not give the rows of the softmax back as they were");
  Node* n = b.node("", "Softmax", {m["x"]}, 1, {{"axis", int64_t{-1}}});
  n->name = m.node("softmax")->name;
  return n->output();
}

// Whether `v` is the weights of a softmax, perhaps in double, and with numbers in place of some: never infinite.
bool are_weights(const Value& v, const Inference& inference, int depth = 0) {
  constexpr int kMaxDepth = 8;
  const Node* n = v.producer();
  if (!n || depth > kMaxDepth) return false;
  if (n->is("Softmax")) return true;
  if (n->is("Cast")) return v.element_type() == DataType::kDouble && are_weights(*n->input(0), inference, depth + 1);
  const auto filler = n->is("Where") ? inference.scalar(n->input(1)) : std::nullopt;
  return filler && std::isfinite(*filler) && are_weights(*n->input(2), inference, depth + 1);
}

// Where(IsInf(w) and ..., number, x) = x for weights w, as nan_to_num has it
pattern::Rule infinite_weights() {
  Pat infinite = Op("IsInf").shared()(any("weights"));
  Pat condition = Op("And").shared()(one_of("as bool", {Op("Cast").shared()(infinite), infinite}), any());
  return {"normalize_softmax", Op("Where", "chosen")(condition, any(), any("x")),
          [](const Match& m, Builder&) -> Outcome {
            if (!are_weights(*m["weights"], m.inference())) return m.refuse("weights", "may be infinite");
            if (const Dims* x = dims(m["x"]); !x || m["chosen"]->tensor_type().shape != *x)
              return m.refuse("x", "is broadcast");
            return m["x"];
          }};
}

}  // namespace

namespace rules {

std::vector<pattern::Rule> softmax_forms() {
  Pat x = any("x");
  Pat of_logarithm = Op("Exp")(Op("LogSoftmax").axis(-1)(x));
  Pat shifted = one_of("shifted", {Op("Sub")(x, reduced("ReduceMax", x)), x});
  Pat e = Op("Exp")(shifted);
  Pat sum = reduced("ReduceSum", e);
  Pat quotient = one_of("quotient", {Op("Div")(e, sum), Op("Mul")(e, Op("Reciprocal")(sum))});
  Pat logarithm = one_of("logarithm", {reduced("ReduceLogSumExp", x), Op("Log")(reduced("ReduceSum", Op("Exp")(x)))});
  Pat by_logarithm = Op("Exp")(Op("Sub")(x, logarithm));
  Pat folded = Op("Softmax", "softmax").axis(-1)(Op("Reshape", "rows").shared()(x, any()));
  return {{"normalize_softmax", Op("Reshape", "unfolded")(folded, any()), rewrite_folded},
          {"normalize_softmax", of_logarithm, rewrite},
          {"normalize_softmax", quotient, rewrite},
          {"normalize_softmax", by_logarithm, rewrite},
          infinite_weights()};
}

}  // namespace rules
}  // namespace attune
