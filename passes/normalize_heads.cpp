// Constant factors behind the split into heads come in front of it:  split(x) s = split(x s)
#include <algorithm>

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

// A constant over heads and their width (H, E), perhaps behind axes of size 1, as one over (H E); one number as it is;
// null for others.
Value* over_all_heads(Value* v, const Dims& heads, Builder& b) {
  const Tensor* t = v->constant();
  if (!t || t->rank() > heads.size()) return nullptr;
  if (t->count() == 1) return t->rank() <= 1 ? v : b.reshape(v, {1});
  for (size_t i = 1; i <= t->rank(); ++i) {  // axes from the last one on
    const int64_t size = t->dim(t->rank() - i);
    if (i > 2 ? size != 1 : !heads[heads.size() - i].is(size)) return nullptr;
  }
  return t->rank() >= 2 ? b.reshape(v, {-1}) : nullptr;
}

pattern::Rule factor_of_heads(const std::string& type) {
  Pat split = Op("Reshape", "heads")(any("x"), any("target"));
  return {"normalize_heads", Op(type)(split, any("factor")), [type](const Match& m, Builder& b) -> Outcome {
            // However the rows are grouped.
            const TensorType &x = m["x"]->tensor_type(), &heads = m["heads"]->tensor_type();
            if (!(x.dim(-1) == heads.dim(-2) * heads.dim(-1)))
              return m.refuse("heads", "are not of the last axis alone");
            Value* factor = over_all_heads(m["factor"], *heads.shape, b);
            if (!factor) return m.refuse("factor", "is no constant over heads and their width");
            return b.op("Reshape", {b.op(type, {m["x"], factor}), m["target"]}, m.node("heads")->attributes());
          }};
}

// Transpose(x s) = Transpose(x) s, of keys (B H, T, E) and a number s
pattern::Rule factor_of_keys(const std::string& type) {
  Pat scaled = Op(type)(Op("Reshape", "keys").shared()(any(), any()), pattern::scalar("factor"));
  return {"normalize_heads", Op("Transpose").attr("perm", {0, 2, 1})(scaled),
          [type](const Match& m, Builder& b) -> Outcome {
            if (m["factor"]->tensor_type().rank() > 1) return m.refuse("factor", "adds axes to the keys");
            return b.op(type, {b.transpose(m["keys"], {0, 2, 1}), m["factor"]});
          }};
}

// (q k^T) s = (q s) k^T, with a constant s for each head or query: learned temperatures
pattern::Rule factor_of_each_head() {
  Pat product = Op("MatMul", "scores")(any("query"), any("key"));
  return {"normalize_head_factor", Op("Mul", "scaled")(product, any("factor")),
          [](const Match& m, Builder& b) -> Outcome {
            const Tensor* factor = m["factor"]->constant();
            const Dims* scores = dims(m["scores"], static_cast<size_t>(m["query"]->tensor_type().rank()));
            if (!factor || factor->count() < 2 || factor->dim(factor->rank() - 1) != 1)
              return m.refuse("factor", "is no constant of several numbers, each the same for all keys");
            if (!scores || m["scaled"]->tensor_type().shape != *scores) return m.refuse("scores", "are broadcast");
            return b.op("MatMul", {b.op("Mul", {m["query"], m["factor"]}), m["key"]});
          }};
}

}  // namespace

std::vector<pattern::Rule> rules::head_forms() {
  return {factor_of_heads("Mul"), factor_of_heads("Div"), factor_of_keys("Mul"), factor_of_keys("Div"),
          factor_of_each_head()};
}

}  // namespace attune
