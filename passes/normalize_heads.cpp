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

}  // namespace

std::vector<pattern::Rule> rules::head_forms() { return {factor_of_heads("Mul"), factor_of_heads("Div")}; }

}  // namespace attune
