// com.microsoft's Attention, QAttention, MultiHeadAttention, DecoderMaskedMultiHeadAttention and GroupQueryAttention,
// as ONNX Runtime's CPU kernels compute them: masks add mask_filter_value, later keys are excluded.
#include <fmt/format.h>

#include <limits>

#include "ops/schema/form_builder.h"

namespace attune {
namespace {

int64_t positive(const FormBuilder& b, std::string_view attribute) {
  const int64_t value = b.node().attr_int(attribute, 0);
  if (value <= 0) b.refuse(fmt::format("attribute {} isn't positive", attribute));
  return value;
}

void set_scale(FormBuilder& b) {
  const float scale = b.node().attr_float("scale", 0);  // 0: 1/sqrt(E)
  b.refuse_if(!(scale >= 0), "the scale is negative or NaN");
  if (scale > 0) b.attributes()["scale"] = scale;
}

bool is_unidirectional(const FormBuilder& b) { return b.node().attr_int("unidirectional", 0) != 0; }

// Which positions an integer mask keeps, broadcastable to (B, H, Tq, Tk).
Value* kept_positions(FormBuilder& b, Value* mask, size_t input, Value* key_length) {
  const int rank = b.rank(input);
  Value* zero = b.tensor(Tensor::scalar(int32_t{0}));
  if (rank == 2) return b.op("Greater", {b.unsqueeze(mask, {1, 2}), zero});
  if (rank == 3) return b.op("Greater", {b.unsqueeze(mask, {1}), zero});
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
  const bool excludes = absorbs(filler, type);
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

// (B, T, n * width) as (B, n, T, width).
Value* split_heads(FormBuilder& b, Value* x, int64_t heads) {
  Value* width = b.div(b.dim(x, 2), b.integer(heads));
  Value* target = b.concat({b.ints({0, 0, heads}), b.as_list(width)}, 0);
  return b.transpose(b.op("Reshape", {x, target}), {0, 2, 1, 3});
}

}  // namespace

std::vector<Value*> build_microsoft_attention_form(FormBuilder& b) {
  const Node& node = b.node();
  const bool quantized = node.type() == "QAttention";
  const size_t mask_input = quantized ? 5 : 3, past_input = quantized ? 8 : 4;
  const int64_t heads = positive(b, "num_heads");
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
  set_scale(b);
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
               past_length_input = decoder ? 7 : 8, bias_input = decoder ? 10 : 3;
  const int64_t heads = positive(b, "num_heads");
  b.refuse_if(b.in(9) || (decoder && b.in(8)), "beams inside the operator (cache_indirection)");
  b.refuse_if(node.attr_int("output_qk", 0) != 0 && b.wants(3), "the output of scores");
  const DataType type = b.type(0);
  b.refuse_if(!is_float(type), "the element type isn't known");

  Value *query = b.in(0), *key = b.in(1), *value = b.in(2);
  const auto part_of = [&](Value* x, int64_t i, int64_t axis) {
    return b.op("Gather", {x, b.integer(i)}, {{"axis", axis}});
  };
  const auto split = [&](Value* x) { return b.transpose(x, {0, 2, 1, 3}); };
  bool split_query = false, split_key = false;
  if (b.rank(0) == 5) {  // (B, T, H, 3, E)
    key = split(part_of(query, 1, 3));
    value = split(part_of(query, 2, 3));
    query = split(part_of(query, 0, 3));
    split_query = split_key = true;
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
    b.refuse_if(split_query, "a bias beside packed queries, keys and values");
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
  if (past_key && (node.attr_int("past_present_share_buffer", 0) != 0 || b.in(past_length_input))) {
    b.refuse_if(!b.in(past_length_input), "a shared buffer without its length");
    Value* length = b.op("Reshape", {b.cast(b.in(past_length_input), DataType::kInt64), b.ints({1})});
    buffer_end = b.add(length, b.as_list(key_length));
    past_key = b.slice(past_key, b.ints({0}), length, 2);
    past_value = b.slice(past_value, b.ints({0}), length, 2);
  }
  if (past_key) key_length = b.add(key_length, b.dim(past_key, 2));
  b.operand(kAttentionQuery) = query;
  b.operand(kAttentionKey) = key;
  b.operand(kAttentionValue) = value;
  b.operand(kAttentionPastKey) = past_key;
  b.operand(kAttentionPastValue) = past_value;
  set_mask(b, b.in(mask_input), mask_input, b.in(score_bias_input), key_length, type);
  set_scale(b);
  b.attributes()["num_heads"] = heads;
  if (is_unidirectional(b)) b.attributes()["causal"] = int64_t{1};
  if (b.wants(3)) b.attributes()["weights_output"] = std::string("biased");
  const Node* attention = b.attention();
  // What lies behind the present in a shared buffer stays.
  const auto present = [&](AttentionOutput output, size_t input) {
    Value* v = attention->output(output);
    if (!buffer_end) return v;
    Value* rest = b.slice(b.in(input), buffer_end, b.ints({std::numeric_limits<int64_t>::max()}), 2);
    return b.concat({v, rest}, 2);
  };
  return {attention->output(kAttentionContext), b.wants(1) ? present(kAttentionPresentKey, past_input) : nullptr,
          b.wants(2) ? present(kAttentionPresentValue, past_input + 1) : nullptr, attention->output(kAttentionWeights)};
}

std::vector<Value*> build_group_query_attention_form(FormBuilder& b) {
  const Node& node = b.node();
  const int64_t heads = positive(b, "num_heads"), kv_heads = positive(b, "kv_num_heads");
  b.refuse_if(node.attr_int("do_rotary", 0) != 0, "rotary embeddings inside the operator");
  b.refuse_if(node.attr_int("smooth_softmax", 0) != 0 || b.in(11), "a softmax with an attention sink");
  b.refuse_if(b.wants(3), "the output of scores");
  b.refuse_if(node.attr_int("kv_cache_bit_width", 0) != 0 || b.in(12), "a quantised cache");
  b.expect_rank(0, {3}, "query");
  Value *query = b.in(0), *key = b.in(1), *value = b.in(2);
  if (!key) {  // packed: (B, T, (H + 2 G) E)
    Value* head = b.as_list(b.div(b.dim(query, 2), b.integer(heads + 2 * kv_heads)));
    Value *wide = b.mul(head, b.integer(heads)), *narrow = b.mul(head, b.integer(kv_heads));
    const auto parts = b.split_last(query, {wide, narrow, narrow});
    query = parts[0], key = parts[1], value = parts[2];
  }
  // New rows of batch b start at lengths[b] - T in a buffer that is as long as the longest needs.
  const DataType int64 = DataType::kInt64;
  Value* added = b.dim(query, 1);
  Value* lengths = b.add(b.cast(b.op("Reshape", {b.in(5), b.ints({-1})}), int64), b.integer(1));
  Value* start = b.sub(lengths, added);
  Value* total = b.op("Reshape", {b.cast(b.in(6), int64), b.ints({})});
  Value* past_length = b.in(3) ? b.dim(b.in(3), 2) : b.integer(0);
  Value* length = b.op("Max", {past_length, total});
  const auto buffer = [&](Value* rows, Value* past) {
    Value* x = split_heads(b, rows, kv_heads);                                                // (B, G, T, E)
    Value* offset = b.sub(b.unsqueeze(b.range(length), {1}), b.unsqueeze(start, {1, 2, 3}));  // (B, 1, T', 1)
    Value* is_new = b.both(b.op("GreaterOrEqual", {offset, b.integer(0)}), b.op("Less", {offset, added}));
    Value* inside = b.op("Max", {b.op("Min", {offset, b.sub(added, b.integer(1))}), b.integer(0)});
    Value* shape =
        b.concat({b.op("Slice", {b.shape(x), b.ints({0}), b.ints({2})}), b.as_list(length), b.as_list(b.dim(x, 3))}, 0);
    Value* placed = b.op("GatherElements", {x, b.op("Expand", {inside, shape})}, {{"axis", int64_t{2}}});
    Value* before = b.op("Expand", {b.number(0, b.type(0)), shape});
    if (past) before = b.concat({past, b.slice(before, b.as_list(past_length), b.as_list(length), 2)}, 2);
    return b.where(is_new, placed, before);
  };
  b.operand(kAttentionQuery) = query;
  Value* keys = b.operand(kAttentionKey) = buffer(key, b.in(3));
  Value* values = b.operand(kAttentionValue) = buffer(value, b.in(4));
  b.operand(kAttentionKeyLengths) = lengths;
  b.operand(kAttentionQueryPosition) = start;
  b.operand(kAttentionMask) = b.in(10);
  set_scale(b);
  const float softcap = node.attr_float("softcap", 0);
  if (softcap > 0) b.attributes()["softcap"] = softcap;
  const int64_t window = node.attr_int("local_window_size", -1);
  if (window > 0) b.attributes()["window"] = std::vector<int64_t>{window - 1, -1};
  b.attributes()["num_heads"] = heads;
  b.attributes()["num_kv_heads"] = kv_heads;
  b.attributes()["causal"] = int64_t{1};
  const Node* attention = b.attention();
  return {attention->output(kAttentionContext), keys, values};
}

}  // namespace attune
