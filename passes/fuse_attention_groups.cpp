// Attention(q, repeat(k), repeat(v))  =  Attention(q, k, v; num_kv_heads), where each key head serves several query
// heads
#include <fmt/format.h>

#include "passes/attention_groups.h"
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

// True if `name` repeats each head, as above: copies of rank 6 may be of all heads together.
bool repeats_heads(const Match& m, const std::string& name) {
  const Node* copies = m.node(name + " expanded") ? m.node(name + " expanded") : m.node(name + " tiled");
  const TensorType &x = m[name + " heads"]->tensor_type(), &copied = copies->output()->tensor_type();
  const Dim batch = x.dim(0), groups = x.dim(1), time = x.dim(2), width = x.dim(3), repeats = copied.dim(2);
  return m[name + " unsqueezed"]->tensor_type().shape == Dims{batch, groups, 1, time, width} &&
         copied.shape == Dims{batch, groups, repeats, time, width} &&
         m[name]->tensor_type().shape == Dims{batch, groups * repeats, time, width} && groups.constant();
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

// Heads that are repeated in front of positions' transpose, (B, T, G, E) -> (B, T, G, r, E) -> (B, T, G r, E), are
// repeated behind it.
pattern::Rule repeated_before_transpose() {
  Pat x = Op("Unsqueeze", "unsqueezed").further_inputs().shared()(any("heads"));
  Pat copies = one_of("copies", {Op("Expand", "copied").shared()(x, any()), Op("Tile", "copied").shared()(x, any())});
  Pat joined = Op("Reshape", "joined").shared()(copies, any());
  return {"fuse_attention_groups", Op("Transpose", "transposed").attr("perm", {0, 2, 1, 3})(joined),
          [](const Match& m, Builder& b) -> Outcome {
            const TensorType &x = m["heads"]->tensor_type(), &copied = m.node("copied")->output()->tensor_type();
            const Dim batch = x.dim(0), time = x.dim(1), groups = x.dim(2), width = x.dim(3), repeats = copied.dim(3);
            if (m["unsqueezed"]->tensor_type().shape != Dims{batch, time, groups, 1, width} ||
                copied.shape != Dims{batch, time, groups, repeats, width} ||
                m["joined"]->tensor_type().shape != Dims{batch, time, groups * repeats, width} || !groups.constant() ||
                !repeats.constant() || !width.constant())
              return m.refuse("joined", "does not repeat heads");
            Value* heads = b.unsqueeze(b.transpose(m["heads"], {0, 2, 1, 3}), {2});
            Value* all = b.op("Expand", {heads, b.integers({1, 1, *repeats.constant(), 1, 1})});
            return b.reshape(all, {0, *groups.constant() * *repeats.constant(), -1, *width.constant()});
          }};
}

// One head, (B, 1, T, E), expanded to all: (B, H, T, E)
pattern::Rule expanded_head() {
  const auto expanded = [](const std::string& name) { return Op("Expand", name).shared()(any(name + " head"), any()); };
  return {"fuse_attention_groups", attention_of(any("query"), expanded("key"), expanded("value")),
          [](const Match& m, Builder& b) -> Outcome {
            const Node& before = *m.node("attention");
            AttentionParts parts(before);
            for (const char* name : {"key", "value"}) {
              const TensorType &from = m[std::string(name) + " head"]->tensor_type(), &to = m[name]->tensor_type();
              if (!from.dim(1).is(1) || to.shape != Dims{from.dim(0), to.dim(1), from.dim(2), from.dim(3)})
                return m.refuse(name, "is not one head, repeated");
            }
            if (parts.inputs[kAttentionPastKey] || is_used(before, kAttentionPresentKey) ||
                is_used(before, kAttentionPresentValue))
              return m.refuse("attention", "keys are cached with their heads repeated");
            parts.inputs[kAttentionKey] = m["key head"];
            parts.inputs[kAttentionValue] = m["value head"];
            parts.attributes["num_kv_heads"] = int64_t{1};
            const Node* now = parts.build(b);
            Outcome outcome(now->output(kAttentionContext));
            carry_outputs(before, *now, outcome);
            return outcome.detail("one key head");
          }};
}

// Heads of a group as rows of queries, (B, G, r, T, E) -> (B, G, r T, E), and in other orders.
std::optional<RowGroups> groups_of(const Match& m) {
  const auto &rows = m["rows"]->tensor_type().shape, &queries = m["queries"]->tensor_type().shape;
  if (!rows || !queries) return std::nullopt;
  Dims apart = *queries;
  if (rows->size() == 3 && apart.size() == 3) {  // (B, T, r E)
    apart.back() = Dim::floor_divide(apart.back(), rows->back());
    apart.push_back(rows->back());
  } else if (rows->size() == 4 && apart.size() == 4) {  // (B, G r, T, E)
    apart = {apart[0], (*rows)[1], Dim::floor_divide(apart[1], (*rows)[1]), apart[2], apart[3]};
  }
  const Node* order = m["queries"]->producer();
  const std::vector<int64_t> perm = order && order->is("Transpose") ? order->attr_ints("perm") : std::vector<int64_t>{};
  return row_groups(*rows, apart, {}, apart.size() == 4 || perm == std::vector<int64_t>{0, 2, 1, 3, 4});
}

Outcome rewrite_rows(const Match& m, Builder& b) {
  const Node& before = *m.node("attention");
  AttentionParts parts(before);
  const auto groups = groups_of(m);
  if (!groups) return m.refuse("rows", "are not heads of a group and positions");
  if (!before.input(kAttentionKey)) return m.refuse("rows", "are keys, too");
  const auto width = m["rows"]->tensor_type().dim(-1).constant(),
             value_width = parts.inputs[kAttentionValue]->tensor_type().dim(-1).constant();
  if (m["rows"]->tensor_type().dim(-2) == m["key"]->tensor_type().dim(-2))
    return m.refuse("rows", "are as many as keys: the positions of an axis more, and no heads");
  if (before.input(kAttentionQueryWeight) || is_used(before, kAttentionWeights) || before.has("causal") ||
      before.has("window"))
    return m.refuse("attention", "projects its queries, sees them by their places, or shows their weights");
  for (const AttentionInput i :
       {kAttentionQueryBias, kAttentionScoreWeight, kAttentionPosition, kAttentionQueryPosition, kAttentionDraw})
    if (before.input(i)) return m.refuse("attention", "has more for each head or row than queries and a mask");
  if (!width || !value_width) return m.refuse("value", "the width of a head is not a constant");
  if (Value*& mask = parts.inputs[kAttentionMask]) {
    mask = mask_of_rows(b, mask, *groups);
    if (!mask) return m.refuse("attention", "its mask is not the same for all heads of a group");
  }
  parts.inputs[kAttentionQuery] = heads_of_rows(b, m["rows"], *groups);
  parts.attributes["num_heads"] = groups->key_heads.value_or(1) * groups->heads;
  parts.attributes["num_kv_heads"] = groups->key_heads.value_or(1);
  const Node* now = parts.build(b);
  Outcome outcome(rows_of_heads(b, now->output(kAttentionContext), *groups, *value_width));
  carry_outputs(before, *now, outcome);
  return outcome.detail(fmt::format("{} heads of each of {} key heads were rows of queries", groups->heads,
                                    groups->key_heads.value_or(1)));
}

// (B, G r, T, F) -> (B, G, r, T, F) -> (B, T, G, r, F) -> (B, T, G r F), without the groups
pattern::Rule merged_groups() {
  Pat apart = Op("Reshape", "apart").shared()(any("x"), any());
  Pat merged = Op("Reshape", "merged")(Op("Transpose").attr("perm", {0, 3, 1, 2, 4}).shared()(apart), any());
  return {"fuse_attention_groups", merged, [](const Match& m, Builder& b) -> Outcome {
            const TensorType &x = m["x"]->tensor_type(), &split = m["apart"]->tensor_type();
            const Dim width = x.dim(1) * x.dim(3);
            if (split.shape != Dims{x.dim(0), split.dim(1), split.dim(2), x.dim(2), x.dim(3)} || !width.constant() ||
                m["merged"]->tensor_type().shape != Dims{x.dim(0), x.dim(2), width})
              return m.refuse("merged", "does not merge groups of heads");
            return b.reshape(b.transpose(m["x"], {0, 2, 1, 3}), {0, 0, *width.constant()});
          }};
}

}  // namespace

size_t fuse_attention_groups(PassContext& context) {
  const std::vector<pattern::Rule> list = {
      repeated_before_transpose(),
      {"fuse_attention_groups", attention_of(any("query"), repeated("key"), repeated("value")), rewrite},
      {"fuse_attention_groups",
       attention_of(Op("Reshape", "rows").shared()(any("queries"), any()), any("key"), any("value")), rewrite_rows},
      expanded_head(),
      merged_groups()};
  return pattern::apply_rules(list, context);
}

}  // namespace attune
