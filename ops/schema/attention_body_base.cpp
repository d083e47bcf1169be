#include "ops/schema/attention_body_base.h"

#include <fmt/format.h>

#include <algorithm>

namespace attune {

AttentionBodyBase::AttentionBodyBase(const Node& node, int64_t opset, Graph& body)
    : node_(node), config_(read_attention_config(node)), b_(body, opset) {
  for (size_t i = 0; i < kAttentionInputs; ++i) inputs_[i] = node.input(i) ? body.inputs()[i] : nullptr;
  type_ = node.input(kAttentionQuery)->element_type();
  if (!is_float(type_)) refuse("the element type of the query isn't known");
  wide_ = wide_type(type_);
}

int AttentionBodyBase::rank(AttentionInput input) const {
  const int rank = node_.input(input)->tensor_type().rank();
  if (rank != 3 && rank != 4)
    refuse(fmt::format("the rank of input {} isn't known to be 3 or 4", static_cast<size_t>(input)));
  return rank;
}

// The result has type T. Null operands are left out.
Value* AttentionBodyBase::project(Value* x, Value* w, Value* bias) {
  if (!w && !bias) return x;
  Value* y = wide(x);
  if (w) y = b_.matmul(y, wide(w));
  if (bias) y = b_.add(y, wide(bias));
  return narrow(y);
}

Value* AttentionBodyBase::split_heads(Value* x, Value* heads) {
  Value* width = b_.div(b_.dim(x, 2), heads);
  return b_.transpose(reshape(x, {b_.ints({0, 0}), b_.as_list(heads), b_.as_list(width)}), {0, 2, 1, 3});
}

Value* AttentionBodyBase::merge_heads(Value* x) {
  Value* width = b_.mul(b_.dim(x, 1), b_.dim(x, 3));
  return reshape(b_.transpose(x, {0, 2, 1, 3}), {b_.ints({0, 0}), b_.as_list(width)});
}

// ONNX Runtime turns one computed part of a concatenated shape into -1, which can't be told for zero elements: the
// maximum keeps it from seeing the parts.
Value* AttentionBodyBase::reshape(Value* x, std::vector<Value*> parts) {
  return b_.op("Reshape", {x, b_.op("Max", {b_.concat(std::move(parts), 0), b_.integer(0)})});
}

// The number of heads: as given, or read off an operand of four dimensions, or `fallback`.
Value* AttentionBodyBase::count_heads(int64_t given, std::initializer_list<std::pair<Value*, int>> operands,
                                      Value* fallback) {
  if (given > 0) return b_.integer(given);
  for (const auto& [x, rank] : operands)
    if (x && rank == 4) return b_.dim(x, 1);
  return fallback;
}

void AttentionBodyBase::project_states() {
  const AttentionInput key_from = inputs_[kAttentionKey] ? kAttentionKey : kAttentionQuery;
  const AttentionInput value_from = inputs_[kAttentionValue] ? kAttentionValue : key_from;
  query_rank_ = rank(kAttentionQuery), key_rank_ = rank(key_from), value_rank_ = rank(value_from);
  const auto beside = [&](int r, AttentionInput w, AttentionInput bias) {
    if (r == 4 && (inputs_[w] || inputs_[bias]))
      refuse("a projection beside an operand of four dimensions is an error");
  };
  beside(query_rank_, kAttentionQueryWeight, kAttentionQueryBias);
  beside(key_rank_, kAttentionKeyWeight, kAttentionKeyBias);
  beside(value_rank_, kAttentionValueWeight, kAttentionValueBias);
  heads_ = count_heads(config_.num_heads, {{inputs_[kAttentionQuery], query_rank_}}, b_.integer(1));
  kv_heads_ = count_heads(config_.num_kv_heads,
                          {{inputs_[key_from], key_rank_},
                           {inputs_[value_from], value_rank_},
                           {inputs_[kAttentionPastKey], 4},
                           {inputs_[kAttentionPastValue], 4}},
                          heads_);
  query_ = project(inputs_[kAttentionQuery], inputs_[kAttentionQueryWeight], inputs_[kAttentionQueryBias]);
  key_ = project(inputs_[key_from], inputs_[kAttentionKeyWeight], inputs_[kAttentionKeyBias]);
  value_ = project(inputs_[value_from], inputs_[kAttentionValueWeight], inputs_[kAttentionValueBias]);
}

bool AttentionBodyBase::has_bool_mask() const {
  return inputs_[kAttentionMask] && node_.input(kAttentionMask)->element_type() == DataType::kBool;
}

Value* AttentionBodyBase::visible(Value* query_length, Value* positions, const Conditions& asked) {
  Value* ok = nullptr;
  if (Value* lengths = inputs_[kAttentionKeyLengths]; lengths && asked.lengths)
    ok = b_.op("Less", {positions, b_.unsqueeze(lengths, {1, 2, 3})});
  const bool causal = config_.causal && asked.causal;
  const bool left = config_.window_left >= 0 && asked.window, right = config_.window_right >= 0 && asked.window;
  if (!causal && !left && !right) return ok;
  Value* at = b_.add(query_start(), b_.unsqueeze(b_.range(query_length), {1}));
  // No sequence is longer than this, and no sum overflows.
  constexpr int64_t kFar = int64_t{1} << 60;
  if (causal) ok = b_.both(ok, b_.op("LessOrEqual", {positions, at}));
  if (left)
    ok = b_.both(ok, b_.op("GreaterOrEqual", {positions, b_.sub(at, b_.integer(std::min(config_.window_left, kFar)))}));
  if (right)
    ok = b_.both(ok, b_.op("LessOrEqual", {positions, b_.add(at, b_.integer(std::min(config_.window_right, kFar)))}));
  return ok;
}

// The position of query 0: (B, 1, 1, 1), or a scalar.
Value* AttentionBodyBase::query_start() {
  if (Value* start = inputs_[kAttentionQueryPosition]) return b_.unsqueeze(start, {1, 2, 3});
  return inputs_[kAttentionPastKey] ? b_.dim(inputs_[kAttentionPastKey], 2) : b_.integer(0);
}

}  // namespace attune
