// Scores with positions, as the attention rules expect them. Transformer-XL and Conformer:
// ((q + u) k^T + r) s = (q + u) k^T s + r s, with r a mask then
#include <algorithm>

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

// Whether a softmax is what becomes of `v`, behind masks and casts.
bool reaches_softmax(const Value& v, int steps = 5) {
  return steps > 0 && std::any_of(v.uses().begin(), v.uses().end(), [&](const Use& u) {
           const Node& n = *u.node;
           if (n.is("Softmax")) return true;
           for (const char* type : {"Add", "Sub", "Where", "Cast", "Max", "Reshape"})
             if (n.is(type)) return reaches_softmax(*n.output(), steps - 1);
           return false;
         });
}

pattern::Rule scaled_sum_of_scores() {
  Pat product = Op("MatMul", "scores")(any("query"), any("key"));
  Pat sum = Op("Add")(product, any("positions")), factor = pattern::scalar("factor");
  return {"normalize_relative_scores",
          one_of("scaling", {Op("Mul", "scaled")(sum, factor), Op("Div", "scaled")(sum, factor)}),
          [](const Match& m, Builder& b) -> Outcome {
            if (m["key"]->tensor_type().rank() < 3) return m.refuse("scores", "are no product of queries and keys");
            if (m.inference().scalar(m["positions"])) return m.refuse("positions", "are a number");
            if (!reaches_softmax(*m.root())) return m.refuse("scaled", "do not go to a softmax");
            const char* type = m.choice("scaling") == 0 ? "Mul" : "Div";
            return b.op("Add", {b.op(type, {m["scores"], m["factor"]}), b.op(type, {m["positions"], m["factor"]})});
          }};
}

// A bias (H, E) added behind the split into heads is one of (H E) in front of it.
pattern::Rule bias_of_heads() {
  Pat heads = Op("Reshape", "heads").shared()(any("states"), any());
  return {"normalize_bias_of_heads", Op("Add", "biased")(heads, any("bias")),
          [](const Match& m, Builder& b) -> Outcome {
            const TensorType &states = m["states"]->tensor_type(), &bias = m["bias"]->tensor_type();
            const Tensor* tensor = m["bias"]->constant();
            if (!tensor || states.rank() != 3)
              return m.refuse("heads", "are no states split into heads, plus a constant");
            const Dim count = bias.dim(-2), width = bias.dim(-1);
            if (m["heads"]->tensor_type().shape != Dims{states.dim(0), states.dim(1), count, width} ||
                !(count * width).is(tensor->count()))
              return m.refuse("bias", "is not one of heads");
            Value* flat = b.constant(tensor->to_contiguous().reshaped({tensor->count()}));
            return b.reshape(b.op("Add", {m["states"], flat}), {0, 0, *count.constant(), *width.constant()});
          }};
}

// Attention that knows where it was (Tacotron 2) or what it has covered: tanh((q + k) + l) = tanh(q + (k + l)), with l
// of each position as k is.
pattern::Rule summed_keys() {
  Pat inner = Op("Add", "inner")(any("a"), any("b"));
  return {"normalize_summed_keys", Op("Tanh")(Op("Add", "sum")(inner, any("c"))),
          [](const Match& m, Builder& b) -> Outcome {
            const auto is_query = [&](const char* name) { return m[name]->tensor_type().dim(1).is(1); };
            for (const char* name : {"a", "b", "c"})
              if (m[name]->tensor_type().rank() != 3) return m.refuse("sum", "is not of a query and of keys");
            const bool a = is_query("a"), other = is_query("b");
            if (is_query("c") || a == other) return m.refuse("inner", "is not of one query and keys");
            Value* keys = b.op("Add", {m[a ? "b" : "a"], m["c"]});
            return b.op("Tanh", {b.op("Add", {m[a ? "a" : "b"], keys})});
          }};
}

}  // namespace

namespace rules {

std::vector<pattern::Rule> relative_score_forms() { return {scaled_sum_of_scores(), bias_of_heads(), summed_keys()}; }

}  // namespace rules
}  // namespace attune
