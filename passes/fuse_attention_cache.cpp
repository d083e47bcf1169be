// Attention(q, past_k | k, past_v | v)  =  Attention(q, k, v, past_k, past_v), whose present outputs are the
// concatenations
#include <fmt/format.h>

#include <algorithm>

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

Pat cache_pattern() {
  const auto concat = [](const std::string& name) {
    return Op("Concat", name).axis(-2).replaced()(any("past " + name), any("new " + name));
  };
  return attention_of(any("query"), concat("key"), concat("value"));
}

Outcome rewrite(const Match& m, Builder& b) {
  const Node& before = *m.node("attention");
  AttentionParts parts(before);
  if (parts.inputs[kAttentionPastKey]) return m.refuse("attention", "has a past already");
  const auto window = before.attr_ints("window");
  const bool bounded = std::any_of(window.begin(), window.end(), [](int64_t side) { return side >= 0; });
  if (!parts.inputs[kAttentionQueryPosition] && (before.attr_int("causal", 0) != 0 || bounded))
    return m.refuse("attention", "causal or a window count from the first key, which with a past they would not");
  for (const char* name : {"past key", "past value", "new key", "new value"})
    if (m[name]->tensor_type().rank() != 4)
      return m.refuse(name, fmt::format("expected rank 4, found {}", m[name]->type().to_string()));
  if (!(m["past key"]->tensor_type().dim(2) == m["past value"]->tensor_type().dim(2)))
    return m.refuse("past value", "keys and values have pasts of different length");
  parts.inputs[kAttentionPastKey] = m["past key"];
  parts.inputs[kAttentionPastValue] = m["past value"];
  parts.inputs[kAttentionKey] = m["new key"];
  parts.inputs[kAttentionValue] = m["new value"];
  const Node* now = parts.build(b);
  Outcome outcome(now->output(kAttentionContext));
  carry_outputs(before, *now, outcome);
  outcome.also(m["key"], now->output(kAttentionPresentKey)).also(m["value"], now->output(kAttentionPresentValue));
  outcome.detail(fmt::format("past of {} positions", m["past key"]->tensor_type().dim(2).to_string()));
  return outcome;
}

}  // namespace

size_t fuse_attention_cache(PassContext& context) {
  const std::vector<pattern::Rule> list = {{"fuse_attention_cache", cache_pattern(), rewrite}};
  return pattern::apply_rules(list, context);
}

}  // namespace attune
