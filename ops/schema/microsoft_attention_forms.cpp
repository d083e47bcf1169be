// com.microsoft's Attention, QAttention, MultiHeadAttention and DecoderMaskedMultiHeadAttention, as ONNX Runtime's CPU
// kernels compute them: masks add mask_filter_value, later keys are excluded.
#include <fmt/format.h>

#include <limits>

#include "ops/schema/form_builder.h"

namespace attune {
namespace {

bool is_unidirectional(const FormBuilder& b) { return b.node().attr_int("unidirectional", 0) != 0; }

// Which positions an integer mask keeps, broadcastable to (B, H, Tq, Tk).
Value* kept_positions(FormBuilder& b, Value* mask, size_t input, Value* key_length) {
  const int rank = b.rank(input);
  Value* zero = b.tensor(Tensor::scalar(int32_t{0}));
  if (rank == 2) return b.op("Greater", {b.unsqueeze(mask, {1, 2}), zero});
  if (rank == 3) return b.op("Greater", {b.unsqueeze(mask, {1}), zero});
  if (rank == 4) {  // (B, 1, M, M): of all positions there may be
    Value *end = b.as_list(key_length), *added = b.as_list(b.dim(b.in(0), 1));
    Value* rows = b.slice(mask, b.sub(end, added), end, 2);
    return b.op("Greater", {b.slice(rows, b.ints({0}), end, 3), zero});
  }
  if (rank != 1) b.refuse(rank < 0 ? "the rank of the mask isn't known" : fmt::format("the mask has rank {}", rank));
  // (B): lengths; (2B): ends, then starts; (3B+2): lengths, then offsets that say the same.
  Value* rows = b.as_list(b.dim(b.in(0), 0));
  Value* twice = b.mul(rows, b.integer(2));
  Value* numbers = b.cast(mask, DataType::kInt64);
  Value* positions = b.range(key_length);
  Value* keep = b.op("Less", {positions, b.unsqueeze(b.slice(numbers, b.ints({0}), rows, 0), {1, 2, 3})});
  if (b.dim_of(input, 0) == b.dim_of(0, 0)) return keep;
  Value* has_starts = b.cast(b.equal(b.shape(mask), twice), DataType::kInt64);
  Value* zeros = b.op("Expand", {b.integer(0), rows});
  Value* starts = b.mul(b.slice(b.concat({numbers, zeros}, 0), rows, twice, 0), has_starts);
  return b.both(keep, b.op("GreaterOrEqual", {positions, b.unsqueeze(starts, {1, 2, 3})}));
}

// Whether adding `filler` to a score of type `type` leaves nothing of the score.
bool absorbs(double filler, DataType type) { return filler <= -1e9 || filler <= lowest_of(type); }

// Sets the mask from an integer mask (null: none), whose dropped positions get `filler`, and a bias (null: none).
void set_mask(FormBuilder& b, Value* mask, size_t input, Value* bias, Value* key_length, DataType type) {
  if (!mask) {
    b.operand(kAttentionMask) = bias;
    return;
  }
  const auto filler = static_cast<double>(b.node().attr_float("mask_filter_value", -10000.0F));
  Value* keep = kept_positions(b, mask, input, key_length);
  // Scores that are shown have the filler in them.
  const bool shows_scores = b.attributes().contains("weights_output");
  const bool excludes = absorbs(filler, type) && !shows_scores;
  if (excludes) b.attributes()["empty_row"] = std::string("mean");
  if (excludes && !bias) {
    b.operand(kAttentionMask) = keep;
    return;
  }
  Value* dropped = b.number(excludes ? -std::numeric_limits<double>::infinity() : filler, type);
  if (!bias) {
    b.operand(kAttentionMask) = b.where(keep, b.number(0, type), dropped);
  } else {
    b.operand(kAttentionMask) =
        excludes ? b.where(keep, bias, dropped) : b.add(bias, b.where(keep, b.number(0, type), dropped));
  }
}

// The past (B * W, H, T, E) of W beams for each of B sources, where row t of a beam is that of the beam `beams` (B, W,
// T' >= T) names for it.
Value* past_of_beams(FormBuilder& b, Value* past, Value* beams) {
  Value* length = b.as_list(b.dim(past, 2));
  Value* named = b.cast(b.slice(beams, b.ints({0}), length, 2), DataType::kInt64);
  Value* first = b.mul(b.range(b.dim(beams, 0)), b.dim(beams, 1));
  Value* rows =
      b.op("Reshape", {b.add(named, b.unsqueeze(first, {1, 2})), b.concat({b.ints({-1, 1}), length, b.ints({1})}, 0)});
  return b.op("GatherElements", {past, b.op("Expand", {rows, b.shape(past)})}, {{"axis", int64_t{0}}});
}

}  // namespace

std::vector<Value*> build_microsoft_attention_form(FormBuilder& b) {
  const Node& node = b.node();
  const bool quantized = node.type() == "QAttention";
  const size_t mask_input = quantized ? 5 : 3, past_input = quantized ? 8 : 4;
  const int64_t heads = b.positive("num_heads");
  b.refuse_if(node.attr_int("do_rotary", 0) != 0, "rotary embeddings inside the operator");
  b.refuse_if(node.attr_int("past_present_share_buffer", 0) != 0, "a shared buffer of past and present");
  b.expect_rank(0, {3}, "input");
  b.expect_rank(1, {2}, "weights");
  const DataType type = b.type(quantized ? 3 : 0);
  b.refuse_if(!is_float(type), "the element type isn't known");
  const auto widths = node.attr_ints("qkv_hidden_sizes");
  b.refuse_if(!widths.empty() && widths.size() != 3, "qkv_hidden_sizes hasn't three sizes");
  std::vector<Value*> sizes;
  for (const int64_t width : widths) sizes.push_back(b.ints({width}));
  if (sizes.empty()) sizes.assign(3, b.as_list(b.div(b.dim(b.in(1), 1), b.integer(3))));
  if (quantized) {
    Value* product = b.op("MatMulInteger", {b.in(0), b.in(1), b.in(6), b.in(7)});
    Value* projected = b.mul(b.cast(product, type), b.mul(b.in(3), b.in(4)));
    if (b.in(2)) projected = b.add(projected, b.in(2));
    const auto parts = b.split_last(projected, sizes);
    for (size_t i = 0; i < 3; ++i) b.operand(static_cast<AttentionInput>(kAttentionQuery + i)) = parts[i];
  } else {
    const auto weights = b.split_last(b.in(1), sizes);
    b.operand(kAttentionQuery) = b.in(0);
    for (size_t i = 0; i < 3; ++i) b.operand(static_cast<AttentionInput>(kAttentionQueryWeight + i)) = weights[i];
    if (b.in(2)) {
      const auto biases = b.split_last(b.in(2), sizes);
      for (size_t i = 0; i < 3; ++i) b.operand(static_cast<AttentionInput>(kAttentionQueryBias + i)) = biases[i];
    }
  }
  Value* key_length = b.dim(b.in(0), 1);
  if (Value* past = b.in(past_input)) {  // (2, B, H, Tp, E)
    key_length = b.add(key_length, b.dim(past, 3));
    const auto part = [&](int64_t i) { return b.op("Gather", {past, b.integer(i)}, {{"axis", int64_t{0}}}); };
    b.operand(kAttentionPastKey) = part(0);
    b.operand(kAttentionPastValue) = part(1);
  }
  set_mask(b, b.in(mask_input), mask_input, quantized ? nullptr : b.in(5), key_length, type);
  b.set_scale();
  b.attributes()["num_heads"] = heads;
  if (is_unidirectional(b)) b.attributes()["causal"] = int64_t{1};
  const Node* attention = b.attention();
  Value* present = nullptr;
  if (b.wants(1))
    present = b.concat({b.unsqueeze(attention->output(kAttentionPresentKey), {0}),
                        b.unsqueeze(attention->output(kAttentionPresentValue), {0})},
                       0);
  return {attention->output(kAttentionContext), present};
}

std::vector<Value*> build_multi_head_attention_form(FormBuilder& b) {
  const Node& node = b.node();
  const bool decoder = node.type() == "DecoderMaskedMultiHeadAttention";
  const size_t mask_input = decoder ? 3 : 4, score_bias_input = decoder ? 4 : 5, past_input = decoder ? 5 : 6,
               past_length_input = decoder ? 7 : 8, bias_input = decoder ? 10 : 3, beams_input = 9;
  const int64_t heads = b.positive("num_heads");
  const DataType type = b.type(0);
  b.refuse_if(!is_float(type), "the element type isn't known");

  Value *query = b.in(0), *key = b.in(1), *value = b.in(2);
  const auto part_of = [&](Value* x, int64_t i, int64_t axis) {
    return b.op("Gather", {x, b.integer(i)}, {{"axis", axis}});
  };
  const auto split = [&](Value* x) { return b.transpose(x, {0, 2, 1, 3}); };
  bool packed = false, split_key = false;
  if (b.rank(0) == 5) {  // (B, T, H, 3, E)
    key = split(part_of(query, 1, 3));
    value = split(part_of(query, 2, 3));
    Value* width = b.mul(b.dim(query, 4), b.integer(heads));
    query = b.op("Reshape", {part_of(query, 0, 3),
                             b.concat({b.as_list(b.dim(query, 0)), b.as_list(b.dim(query, 1)), b.as_list(width)}, 0)});
    packed = split_key = true;
  } else {
    b.expect_rank(0, {3}, "query");
    if (b.rank(1) == 5) {  // (B, T, H, 2, E)
      value = split(part_of(key, 1, 3));
      key = split(part_of(key, 0, 3));
      split_key = true;
    } else {
      b.expect_rank(1, {3, 4}, "key");
      b.refuse_if(!b.in(2), "a key without a value");
      split_key = b.rank(1) == 4;
    }
  }
  if (Value* bias = b.in(bias_input)) {
    b.refuse_if(packed, "a bias beside packed queries, keys and values");
    Value* width = b.as_list(b.dim(query, 2));
    const auto parts = b.split_last(bias, {width, width, b.sub(b.shape(bias), b.mul(width, b.integer(2)))});
    b.operand(kAttentionQueryBias) = parts[0];
    if (!split_key) {  // cached keys have theirs already
      b.operand(kAttentionKeyBias) = parts[1];
      b.operand(kAttentionValueBias) = parts[2];
    }
  }
  Value* key_length = b.dim(key, split_key ? 2 : 1);
  Value *past_key = b.in(past_input), *past_value = b.in(past_input + 1), *buffer_end = nullptr;
  Value *own_key = nullptr, *own_value = nullptr;  // the pasts of a shared buffer, as far as they are filled
  if (past_key && (node.attr_int("past_present_share_buffer", 0) != 0 || b.in(past_length_input))) {
    b.refuse_if(!b.in(past_length_input), "a shared buffer without its length");
    Value* length = b.op("Reshape", {b.cast(b.in(past_length_input), DataType::kInt64), b.ints({1})});
    buffer_end = b.add(length, b.as_list(key_length));
    past_key = own_key = b.slice(past_key, b.ints({0}), length, 2);
    past_value = own_value = b.slice(past_value, b.ints({0}), length, 2);
  }
  if (past_key) key_length = b.add(key_length, b.dim(past_key, 2));
  if (b.in(beams_input)) {
    b.refuse_if(!buffer_end, "beams (cache_indirection) without a shared buffer");
    past_key = past_of_beams(b, own_key, b.in(beams_input));
    past_value = past_of_beams(b, own_value, b.in(beams_input));
  }
  b.operand(kAttentionQuery) = query;
  b.operand(kAttentionKey) = key;
  b.operand(kAttentionValue) = value;
  b.operand(kAttentionPastKey) = past_key;
  b.operand(kAttentionPastValue) = past_value;
  if (b.wants(3)) b.attributes()["weights_output"] = std::string("biased");
  set_mask(b, b.in(mask_input), mask_input, b.in(score_bias_input), key_length, type);
  b.set_scale();
  b.attributes()["num_heads"] = heads;
  if (is_unidirectional(b)) b.attributes()["causal"] = int64_t{1};
  const Node* attention = b.attention();
  // What lies behind the present in a shared buffer stays, and so does a beam's own past.
  const auto present = [&](AttentionOutput output, size_t input, Value* own) {
    Value *v = attention->output(output), *end = b.ints({std::numeric_limits<int64_t>::max()});
    if (!buffer_end) return v;
    return b.concat({own, b.slice(v, b.as_list(b.dim(own, 2)), end, 2), b.slice(b.in(input), buffer_end, end, 2)}, 2);
  };
  return {attention->output(kAttentionContext),
          b.wants(1) ? present(kAttentionPresentKey, past_input, own_key) : nullptr,
          b.wants(2) ? present(kAttentionPresentValue, past_input + 1, own_value) : nullptr,
          attention->output(kAttentionWeights)};
}

}  // namespace attune
