// merge(Attention(split(q), split(k), split(v)))  =  Attention(q, k, v; num_heads), where split and merge are the
// Reshape and Transpose between (B, T, H E) and (B, H, T, E)
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "passes/attention_node.h"
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

std::string describe(const Value* v) { return v->type().to_string(); }

// Transposes to (B, H, T, E): of (B, T, H, E), and of (T, B, H, E) as nn.MultiheadAttention has it.
const std::vector<int64_t> kFromBatchFirst = {0, 2, 1, 3}, kFromTimeFirst = {1, 2, 0, 3};
// And back.
const std::vector<int64_t> kToBatchFirst = {0, 2, 1, 3}, kToTimeFirst = {2, 0, 1, 3};

// Whether `split` is `x` with its last axis split into heads, by shapes.
bool splits_last_axis(const Value& x, const Value& split) {
  const TensorType &from = x.tensor_type(), &to = split.tensor_type();
  return from.shape == Dims{to.dim(0), to.dim(1), to.dim(2) * to.dim(3)};
}

// The Transpose of a Reshape that splits heads off, with its parts captured as NAME, "NAME split" and "NAME states".
Pat split_heads(const std::string& name, Op transpose) {
  Pat split = Op("Reshape", name + " split").shared()(any(name + " states"), any());
  return std::move(transpose)(split);
}

struct Heads {
  int64_t count = 0;
  Value* states = nullptr;  // (B, T, H E)
  std::string reason;       // why there are none
};

Heads read_heads(const Match& m, Builder& b, const std::string& name) {
  Value &x = *m[name + " states"], &split = *m[name + " split"];
  const std::vector<int64_t> perm = m.node(name)->attr_ints("perm");
  if (perm != kFromBatchFirst && perm != kFromTimeFirst)
    return {0, nullptr,
            fmt::format("the transpose ({}) does not bring heads in front of positions", fmt::join(perm, ","))};
  if (!splits_last_axis(x, split))
    return {0, nullptr,
            fmt::format("{} is not {} with its last axis split into heads", describe(&split), describe(&x))};
  const auto count = split.tensor_type().dim(2).constant();
  if (!count) return {0, nullptr, fmt::format("the number of heads in {} is not a constant", describe(&split))};
  return {*count, perm == kFromBatchFirst ? &x : b.transpose(&x, {1, 0, 2}), {}};
}

// Of a size in the target of a Reshape.
bool unclear(const Dim& d) { return !d.known() || d.is(0); }

constexpr std::array kMemory{kAttentionKey, kAttentionValue};

bool is_transposed(const Value* v) {
  const Node* n = v->producer();
  return n && (n->is("Transpose") || (n->is("Slice") && is_transposed(n->input(0))));
}

bool is_used_elsewhere(const Value& v) { return v.uses().size() > 1 || v.is_graph_output(); }

// --- queries and context

Pat query_pattern() {
  Pat attention = attention_of(split_heads("query", Op("Transpose", "query")), any("key"), any("value"));
  Pat merged = Op("Transpose", "heads last")(attention);
  return Op("Reshape", "merge")(merged, any("merge target"));
}

// The axis of size 1 that `to` has and `from` has not, where all others agree.
std::optional<int64_t> axis_added(const TensorType& from, const TensorType& to) {
  for (int axis = 0; axis < to.rank(); ++axis) {
    Dims rest = *to.shape;
    rest.erase(rest.begin() + axis);
    if (to.dim(axis).is(1) && from.shape == rest) return axis;
  }
  return std::nullopt;
}

Outcome rewrite_query(const Match& m, Builder& b) {
  const Node& before = *m.node("attention");
  AttentionParts parts(before);
  if (is_used_elsewhere(*before.output(kAttentionContext)))
    return m.refuse("attention", "its context is also used with heads apart");
  const Heads heads = read_heads(m, b, "query");
  if (heads.count == 0) return m.refuse("query split", heads.reason);
  const std::vector<int64_t> back = m.node("heads last")->attr_ints("perm");
  if (back != kToBatchFirst && back != kToTimeFirst)
    return m.refuse("heads last",
                    fmt::format("the transpose ({}) does not bring positions in front of heads", fmt::join(back, ",")));
  parts.inputs[kAttentionQuery] = heads.states;
  parts.attributes["num_heads"] = heads.count;
  if (const auto groups = parts.inputs[kAttentionKey]->tensor_type().dim(1).constant();
      groups && *groups != heads.count)
    parts.attributes["num_kv_heads"] = *groups;
  const Node* now = parts.build(b);
  Value* context = now->output(kAttentionContext);
  if (back == kToTimeFirst) context = b.transpose(context, {1, 0, 2});
  const TensorType &wanted = m["merge"]->tensor_type(), &given = context->tensor_type();
  if (!wanted.shape || !given.shape || *wanted.shape != *given.shape) {
    // A 0 in the target means a size of the (B, T, H, F) that is no longer there.
    const auto target = m.inference().integers(m["merge target"]);
    if (const auto axis = axis_added(given, wanted)) {
      context = b.unsqueeze(context, {*axis});
    } else if (target && std::none_of(target->begin(), target->end(), unclear)) {
      context = b.op("Reshape", {context, m["merge target"]});
    } else {
      return m.refuse(
          "merge", fmt::format("{} is not {} with its heads merged", describe(m["merge"]), describe(before.output())));
    }
  }
  Outcome outcome(context);
  carry_outputs(before, *now, outcome);
  return outcome.detail(
      fmt::format("{} heads of width {}", heads.count, m["query split"]->tensor_type().dim(3).to_string()));
}

// One step: states (B, H E) or (B, 1, H E) are reshaped to queries (B, H, 1, E), and the context (B, H, 1, F) to
// (B, H F) or (B, 1, H F).
Pat step_pattern() {
  Pat split = pattern::optional(Op("Unsqueeze", "step row").further_inputs(),
                                Op("Reshape", "step split").shared()(any("states"), any()));
  Pat attention = attention_of(split, any("key"), any("value"));
  Pat context = pattern::optional(Op("Squeeze", "step context").further_inputs(), attention);
  return Op("Reshape", "merge")(context, any());
}

Outcome rewrite_step(const Match& m, Builder& b) {
  const Node& before = *m.node("attention");
  AttentionParts parts(before);
  const TensorType &states = m["states"]->tensor_type(), &merged = m["merge"]->tensor_type(),
                   &query = parts.inputs[kAttentionQuery]->tensor_type(),
                   &context = before.output(kAttentionContext)->tensor_type();
  if (query.rank() != 4) return m.refuse("attention", "its heads are not apart");
  // By its size there is one position then.
  const auto is_row = [](const TensorType& x, const TensorType& apart) {
    const Dim batch = apart.dim(0), width = apart.dim(1) * apart.dim(3);
    return x.shape == Dims{batch, width} || x.shape == Dims{batch, 1, width};
  };
  const auto heads = query.dim(1).constant();
  if (!heads || !is_row(states, query))
    return m.refuse("step split", "is not one row of states with its last axis split into heads");
  if (!is_row(merged, context)) return m.refuse("merge", "is not one row of the context with its heads merged");
  if (is_used_elsewhere(*before.output(kAttentionContext)))
    return m.refuse("attention", "its context is also used with heads apart");
  parts.inputs[kAttentionQuery] = states.rank() == 2 ? b.unsqueeze(m["states"], {1}) : m["states"];
  parts.attributes["num_heads"] = *heads;
  if (const auto groups = parts.inputs[kAttentionKey]->tensor_type().dim(1).constant(); groups && *groups != *heads)
    parts.attributes["num_kv_heads"] = *groups;
  const Node* now = parts.build(b);
  Value* row = now->output(kAttentionContext);
  Outcome outcome(merged.rank() == 2 ? b.squeeze(row, {1}) : row);
  carry_outputs(before, *now, outcome);
  return outcome.detail(fmt::format("{} heads of width {}, of one step", *heads, query.dim(3).to_string()));
}

// (B N, H, T, F) -> (B, N, H, T, F) -> (B, N, T, H, F) -> (B, N, T, H F), attention in N streams: heads are merged
// first
pattern::Rule context_of_streams() {
  Pat context = attention_of(any("query"), any("key"), any("value"));
  Pat apart = Op("Reshape", "apart")(context, any("sizes"));
  Pat merged = Op("Reshape", "merge")(Op("Transpose").attr("perm", {0, 1, 3, 2, 4})(apart), any());
  return {"fuse_attention_heads", merged, [](const Match& m, Builder& b) -> Outcome {
            Value* context = m.node("attention")->output(kAttentionContext);
            const TensorType &folded = context->tensor_type(), &streams = m["apart"]->tensor_type();
            const auto& out = m["merge"]->tensor_type().shape;
            const Dim blocks = streams.dim(1), time = streams.dim(3), merged = streams.dim(2) * streams.dim(4);
            const Dims apart{streams.dim(0), blocks, time, merged},
                joined{streams.dim(0), blocks * time, merged};  // blocks of one text
            if (folded.shape != Dims{folded.dim(0), streams.dim(2), time, streams.dim(4)} || !merged.constant() ||
                (out != apart && out != joined))
              return m.refuse("merge", "does not merge the heads of each stream");
            // A 0 among the sizes means one of the (B N, H, T, F) that is no longer there.
            const auto sizes = m.inference().integers(m["sizes"]);
            if (m.node("apart")->attr_int("allowzero", 0) == 0 &&
                (!sizes || std::any_of(sizes->begin(), sizes->end(), unclear)))
              return m.refuse("apart", "its sizes are not known");
            const int64_t width = *merged.constant();
            Value* states = b.reshape(b.transpose(context, {0, 2, 1, 3}), {0, 0, width});
            const auto size = [&](int64_t i) {
              return b.op("Slice", {m["sizes"], b.integers({i}), b.integers({i + 1})});
            };
            std::vector<Value*> target{size(0), size(1), size(3), b.integers({width})};
            if (out == joined) {
              const bool is_rest = sizes && (sizes->at(1).is(-1) || sizes->at(3).is(-1));
              target = {size(0), is_rest ? b.integers({-1}) : b.op("Mul", {size(1), size(3)}), b.integers({width})};
            }
            return b.op("Reshape", {states, b.op("Concat", std::move(target), {{"axis", int64_t{0}}})},
                        m.node("apart")->attributes());
          }};
}

// --- keys and values

Pat memory_pattern() {
  return attention_of(any("query"), split_heads("key", Op("Transpose", "key").replaced()),
                      split_heads("value", Op("Transpose", "value").replaced()));
}

Outcome rewrite_memory(const Match& m, Builder& b) {
  const Node& before = *m.node("attention");
  AttentionParts parts(before);
  if (parts.inputs[kAttentionQuery]->tensor_type().rank() != 3) return m.refuse("query", "is not three-dimensional");
  const Heads keys = read_heads(m, b, "key"), values = read_heads(m, b, "value");
  if (keys.count == 0) return m.refuse("key split", keys.reason);
  if (values.count == 0) return m.refuse("value split", values.reason);
  if (keys.count != values.count)
    return m.refuse("value split", fmt::format("{} heads, but keys have {}", values.count, keys.count));
  const bool elsewhere = is_used_elsewhere(*m["key"]) || is_used_elsewhere(*m["value"]);
  if (elsewhere && parts.inputs[kAttentionPastKey])
    return m.refuse("key", "new keys or values are also used without their past");
  parts.inputs[kAttentionKey] = keys.states;
  parts.inputs[kAttentionValue] = values.states;
  const Node* now = parts.build(b);
  Outcome outcome(now->output(kAttentionContext));
  carry_outputs(before, *now, outcome);
  if (elsewhere)
    outcome.also(m["key"], now->output(kAttentionPresentKey)).also(m["value"], now->output(kAttentionPresentValue));
  return outcome.detail(fmt::format("{} key heads", keys.count));
}

// --- one head of keys and values for all queries

// x of (B, 1, T, E) without that axis.
Value* without_head_axis(Builder& b, Value* x) {
  Dims rest = *x->tensor_type().shape;
  rest.erase(rest.begin() + 1);
  const auto is_rest = [&](const Value* v) { return v->tensor_type().shape == rest; };
  const Node* n = x->producer();
  if (n && n->is("Transpose") && n->attr_ints("perm") == kFromBatchFirst) n = n->input(0)->producer();
  const bool adds = n && (n->is("Unsqueeze") || n->is("Reshape")) && is_rest(n->input(0));
  return adds ? n->input(0) : b.squeeze(x, {1});
}

Outcome rewrite_one_head(const Match& m, Builder& b) {
  const Node& before = *m.node("attention");
  AttentionParts parts(before);
  if (parts.inputs[kAttentionQuery]->tensor_type().rank() != 3) return m.refuse("query", "is not three-dimensional");
  if (parts.inputs[kAttentionPastKey]) return m.refuse("attention", "has a past");
  if (!before.input(kAttentionKey)) return m.refuse("key", "is left out, and stands for the queries");
  for (const AttentionInput i : kMemory) {
    const TensorType& type = parts.inputs[i]->tensor_type();
    if (type.rank() != 4 || !type.dim(1).is(1)) return m.refuse("key", "is not of one head");
    parts.inputs[i] = without_head_axis(b, parts.inputs[i]);
  }
  const Node* now = parts.build(b);
  Outcome outcome(now->output(kAttentionContext));
  carry_outputs(before, *now, outcome);
  return outcome.detail("one key head");
}

}  // namespace

namespace rules {

pattern::Rule attention_heads() {
  // Queries that are computed; inputs may well be given with heads apart.
  const auto heads_outside = [](const Node& n) {
    const Value* query = n.input(kAttentionQuery);
    return query->tensor_type().rank() == 4 && query->producer();
  };
  return {"fuse_attention_heads", query_pattern(), rewrite_query, {"ai.attune.Attention"}, heads_outside};
}

pattern::Rule attention_memory_heads() {
  // Likewise for keys and values, of queries without an axis of heads.
  const auto heads_outside = [](const Node& n) {
    if (n.input(kAttentionQuery)->tensor_type().rank() != 3) return false;
    return std::any_of(kMemory.begin(), kMemory.end(), [&](AttentionInput i) {
      const Value* v = n.input(i);
      return v && v->tensor_type().rank() == 4 && (is_transposed(v) || linear_layer_behind(v));
    });
  };
  return {"fuse_attention_heads", memory_pattern(), rewrite_memory, {"ai.attune.Attention"}, heads_outside};
}

}  // namespace rules

size_t fuse_attention_heads(PassContext& context) {
  const std::vector<pattern::Rule> list = {
      context_of_streams(),
      rules::attention_heads(),
      {"fuse_attention_heads", step_pattern(), rewrite_step},
      rules::attention_memory_heads(),
      {"fuse_attention_heads", attention_of(any("query"), any("key"), any("value")), rewrite_one_head}};
  return pattern::apply_rules(list, context);
}

}  // namespace attune
