// Attention(s q, k, v)  =  Attention(q, s k, v)  =  Attention(q, k, v; scale = s)
#include <fmt/format.h>

#include <cmath>

#include "passes/attention_node.h"
#include "passes/passes.h"

namespace attune {
namespace {

using pattern::any;
using pattern::Builder;
using pattern::Match;
using pattern::Op;
using pattern::Outcome;
using pattern::Pat;

Pat scaled() {
  Pat x = any("states"), factor = pattern::scalar("factor");
  return pattern::one_of("scaling", {Op("Mul")(x, factor), Op("Div")(x, factor)});
}

Outcome rewrite(const Match& m, Builder& b, AttentionInput operand) {
  const Node& before = *m.node("attention");
  AttentionParts parts(before);
  const double factor = m.choice("scaling") == 0 ? *m.number("factor") : 1 / *m.number("factor");
  const AttentionInput weight = operand == kAttentionQuery ? kAttentionQueryWeight : kAttentionKeyWeight,
                       bias = operand == kAttentionQuery ? kAttentionQueryBias : kAttentionKeyBias;
  if (before.attr_string("score", "scaled_dot") != "scaled_dot" || !before.has("scale"))
    return m.refuse("attention", "has no scale that could take the factor");
  if (before.input(weight) || before.input(bias)) return m.refuse("attention", "projects what the factor scales");
  if (operand == kAttentionKey && (before.input(kAttentionPastKey) || is_used(before, kAttentionPresentKey)))
    return m.refuse("attention", "caches the keys with their factor");
  const double scale = static_cast<double>(before.attr_float("scale", 1)) * factor;
  if (!std::isfinite(scale) || scale < 0)
    return m.refuse("factor", fmt::format("the scale {} is negative or not finite", scale));
  if (m["states"]->tensor_type().rank() != before.input(operand)->tensor_type().rank())
    return m.refuse("states", "is broadcast by its factor");
  parts.inputs[operand] = m["states"];
  parts.attributes["scale"] = static_cast<float>(scale);
  const Node* now = parts.build(b);
  Outcome outcome(now->output(kAttentionContext));
  carry_outputs(before, *now, outcome);
  return outcome.detail(fmt::format("scale {:.6g}", scale));
}

}  // namespace

size_t fuse_attention_scale(PassContext& context) {
  const std::vector<pattern::Rule> list = {{"fuse_attention_scale", attention_of(scaled(), any("key"), any("value")),
                                            [](const Match& m, Builder& b) { return rewrite(m, b, kAttentionQuery); }},
                                           {"fuse_attention_scale", attention_of(any("query"), scaled(), any("value")),
                                            [](const Match& m, Builder& b) { return rewrite(m, b, kAttentionKey); }}};
  return pattern::apply_rules(list, context);
}

}  // namespace attune
