// Attention(q, repeat(k), repeat(v))  =  Attention(q, k, v; num_kv_heads), where each key head serves several query
// heads
#include <fmt/format.h>

#include "passes/attention_node.h"
#include "passes/passes.h"

namespace attune {
namespace {

using pattern::any;
using pattern::Builder;
using pattern::Match;
using pattern::one_of;
using pattern::Op;
using pattern::Outcome;
using pattern::Pat;

// (B, G, T, E) -> (B, G, 1, T, E) -> (B, G, r, T, E) -> (B, G r, T, E)
Pat repeated(const std::string& name) {
  Pat x = Op("Unsqueeze", name + " unsqueezed").further_inputs().shared()(any(name + " heads"));
  Pat copies = one_of(name + " copies", {Op("Expand", name + " expanded").shared()(x, any()),
                                         Op("Tile", name + " tiled").shared()(x, any())});
  return Op("Reshape", name).shared()(copies, any());
}

// True if `name` repeats each head, as above.
bool repeats_heads(const Match& m, const std::string& name) {
  const Node* copies = m.node(name + " expanded") ? m.node(name + " expanded") : m.node(name + " tiled");
  const auto &x = m[name + " heads"]->tensor_type().shape, &unsqueezed = m[name + " unsqueezed"]->tensor_type().shape,
             &copied = copies->output()->tensor_type().shape, &out = m[name]->tensor_type().shape;
  if (!x || !unsqueezed || !copied || !out || x->size() != 4 || copied->size() != 5 || out->size() != 4) return false;
  const Dim batch = (*x)[0], groups = (*x)[1], time = (*x)[2], width = (*x)[3], repeats = (*copied)[2];
  return *unsqueezed == Dims{batch, groups, 1, time, width} && *copied == Dims{batch, groups, repeats, time, width} &&
         *out == Dims{batch, groups * repeats, time, width} && groups.constant();
}

Outcome rewrite(const Match& m, Builder& b) {
  const Node& before = *m.node("attention");
  AttentionParts parts(before);
  for (const char* name : {"key", "value"})
    if (!repeats_heads(m, name)) return m.refuse(name, "does not repeat each head");
  if (parts.inputs[kAttentionPastKey] || is_used(before, kAttentionPresentKey) ||
      is_used(before, kAttentionPresentValue))
    return m.refuse("attention", "keys are cached with their heads repeated");
  const auto groups = m["key heads"]->tensor_type().dim(1);
  if (!(groups == m["value heads"]->tensor_type().dim(1)))
    return m.refuse("value", "keys and values have different numbers of heads");
  parts.inputs[kAttentionKey] = m["key heads"];
  parts.inputs[kAttentionValue] = m["value heads"];
  parts.attributes["num_kv_heads"] = *groups.constant();
  const Node* now = parts.build(b);
  Outcome outcome(now->output(kAttentionContext));
  carry_outputs(before, *now, outcome);
  return outcome.detail(fmt::format("{} key heads", *groups.constant()));
}

}  // namespace

size_t fuse_attention_groups(PassContext& context) {
  const std::vector<pattern::Rule> list = {
      {"fuse_attention_groups", attention_of(any("query"), repeated("key"), repeated("value")), rewrite}};
  return pattern::apply_rules(list, context);
}

}  // namespace attune
