// Attention operators: ai.attune, ai.onnx (opset 23 on) and com.microsoft.
// B batch, S queries, P past keys, T new keys, H query heads, G key/value heads, E and F widths of a key and value
// head.
#include <fmt/format.h>

#include "ops/infer/node_inference.h"
#include "ops/support/attention_inputs.h"

namespace attune {
namespace {

std::optional<Dims> if_known(bool known, Dims dims) { return known ? std::optional(std::move(dims)) : std::nullopt; }

// Keys or values: heads, length and the width of one head.
struct Heads {
  Dim heads, length, width;
};

// (B, length, heads * width), or (B, heads, length, width).
Heads split_heads(NodeInference& n, size_t input, const Dim& heads) {
  if (n.rank(input) == 4) return {n.dim(input, 1), n.dim(input, 2), n.dim(input, 3)};
  return {heads, n.dim(input, 1), n.part(n.dim(input, 2), heads)};
}

// What queries, keys, values and their past need of each other.
struct Streams {
  Dim batch, heads, groups, queries, keys;  // keys: with the past
  Dim key_width, value_width;               // of a head
};

// A past (B, G, P, width).
void relate_past(NodeInference& n, size_t key, const Streams& s) {
  if (!n.has(key)) return;
  n.relate_shape(key, {s.batch, s.groups, Dim(), s.key_width});
  n.relate_shape(key + 1, {s.batch, s.groups, n.dim(key, 2), s.value_width});
}

// A mask or bias that broadcasts to (B, H, S, T); of fewer axes, to the last of them.
void relate_mask(NodeInference& n, size_t input, const Streams& s) {
  Dims all{s.batch, s.heads, s.queries, s.keys};
  const int rank = n.rank(input);
  if (n.has(input) && rank >= 0 && rank <= 4) n.relate_shape(input, Dims(all.end() - rank, all.end()), false);
}

// com.microsoft's mask of integers: (B), (B, T), (B, S, T), or (B, 1, M, M).
void relate_key_mask(NodeInference& n, size_t input, const Streams& s) {
  n.relate_shape(input, {s.batch}, false);  // or two or three numbers for each
  n.relate_shape(input, {s.batch, s.keys});
  n.relate_shape(input, {s.batch, s.queries, s.keys});
  n.relate_shape(input, {s.batch, 1, s.keys, s.keys}, false);
}

Dim heads_attribute(NodeInference& n, const char* attribute, const Dim& fallback) {
  if (!n.node().has(attribute)) return fallback;
  const int64_t heads = n.node().attr_int(attribute, 0);
  if (heads < 1) n.fail(fmt::format("attribute '{}' is {}", attribute, heads));
  return heads;
}

void expect_rank_3_or_4(NodeInference& n, size_t input) {
  const int rank = n.rank(input);
  if (n.has(input) && rank >= 0 && rank != 3 && rank != 4)
    n.fail(fmt::format("input {}: expected rank 3 or 4, got rank {}", input, rank));
}

Dims context_shape(bool split, const Dim& batch, const Dim& heads, const Dim& queries, const Dim& width) {
  return split ? Dims{batch, heads, queries, width} : Dims{batch, queries, heads * width};
}

// The batch of the result: what has a batch of 1 stands for as many as others have. A mask of four dimensions has one.
Dim result_batch(NodeInference& n, std::initializer_list<size_t> operands, size_t mask) {
  Dim batch(1);
  for (const size_t i : operands)
    if (n.has(i)) batch = n.broadcast(batch, n.dim(i, 0));
  return n.rank(mask) == 4 ? n.broadcast(batch, n.dim(mask, 0)) : batch;
}

// ---- ai.attune

// Heads of the keys or values after the projection `weight`, if there is one. The source of absent keys is the query,
// that of absent values the keys' input.
Heads projected(NodeInference& n, size_t source, size_t weight, const Dim& heads) {
  if (!n.has(weight)) return split_heads(n, source, heads);
  n.relate(n.dim(source, -1), n.dim(weight, 0));
  n.relate_shape(weight + kAttentionQueryBias - kAttentionQueryWeight, {n.dim(weight, 1)});
  return {heads, n.dim(source, 1), n.part(n.dim(weight, 1), heads)};
}

void infer_attune_attention(NodeInference& n) {
  for (size_t i = 0; i < 3; ++i) expect_rank_3_or_4(n, i);
  const size_t key = n.has(1) ? 1 : 0, value = n.has(2) ? 2 : key;
  const bool split = n.rank(0) == 4;
  const Dim heads = split ? n.dim(0, 1) : heads_attribute(n, "num_heads", 1);
  const Dim groups = n.rank(key) == 4 ? n.dim(key, 1) : heads_attribute(n, "num_kv_heads", heads);
  const Heads k = projected(n, key, kAttentionKeyWeight, groups),
              v = projected(n, value, kAttentionValueWeight, groups);
  const Dim batch = n.dim(0, 0), queries = n.dim(0, split ? 2 : 1);
  const Dim length = n.has(kAttentionPastKey) ? n.dim(kAttentionPastKey, 2) + k.length : k.length;
  const Streams streams{batch, heads, groups, queries, length, k.width, v.width};
  n.part(heads, groups);
  if (!n.has(kAttentionScoreWeight) && !n.has(kAttentionScoreBias))  // additive scores have a width of their own
    n.relate(projected(n, 0, kAttentionQueryWeight, heads).width, k.width);
  n.relate(v.length, k.length);
  n.relate(v.heads, k.heads);
  if (n.has(kAttentionPastKey)) {
    n.relate_shape(kAttentionPastKey, {n.dim(key, 0), groups, Dim(), k.width});
    n.relate_shape(kAttentionPastValue, {n.dim(value, 0), groups, n.dim(kAttentionPastKey, 2), v.width});
  }
  relate_mask(n, kAttentionMask, streams);
  n.relate_shape(kAttentionKeyLengths, {batch});
  n.relate_shape(kAttentionQueryPosition, {batch});
  n.relate_shape(kAttentionPosition, {batch, heads});
  const DataType type = n.element(0);
  const bool mean = n.node().attr_string("weights_output", "normalized") == "head_mean";
  const Dim all = result_batch(n, {0, key, value, kAttentionKeyLengths, kAttentionPosition, kAttentionQueryPosition},
                               kAttentionMask);
  n.set(0, type, if_known(n.rank(0) >= 0, context_shape(split, all, heads, queries, v.width)));
  n.set(1, type, Dims{n.dim(key, 0), groups, length, k.width});
  n.set(2, type, Dims{n.dim(value, 0), groups, length, v.width});
  n.set(3, type, Dims{all, mean ? Dim(1) : heads, queries, length});
  n.set(4, DataType::kInt64, Dims{all, heads});
}

// A table (buckets, H), the numbers of queries and keys: a bias (1, H, S, T).
void infer_relative_position_bias(NodeInference& n) {
  const auto size = [&](size_t input) {
    const auto known = n.elements(input);
    return known && known->integers.size() == 1 ? known->integers[0] : Dim();
  };
  n.expect_rank(0, 2);
  n.set(0, n.element(0), Dims{1, n.dim(0, 1), size(1), size(2)});
}

// States (..., T, D), table (rows, D).
void infer_position_embedding(NodeInference& n) {
  n.expect_rank(1, 2);
  n.set(0, n.element(0), n.shape(0));
}

// ---- ai.onnx

void infer_onnx_attention(NodeInference& n) {
  for (size_t i = 0; i < 3; ++i) expect_rank_3_or_4(n, i);
  const bool split = n.rank(0) == 4;
  const Dim heads = split ? n.dim(0, 1) : heads_attribute(n, "q_num_heads", {});
  const Dim groups = heads_attribute(n, "kv_num_heads", {});
  const Heads k = split_heads(n, 1, groups), v = split_heads(n, 2, groups);
  const Dim batch = n.dim(0, 0), queries = n.dim(0, split ? 2 : 1);
  const Dim length = n.has(4) ? n.dim(4, 2) + k.length : k.length;
  const Streams streams{batch, heads, k.heads, queries, length, k.width, v.width};
  n.part(heads, k.heads);
  n.relate(split_heads(n, 0, heads).width, k.width);
  for (size_t i = 1; i < 3; ++i) n.relate(n.dim(i, 0), batch);
  n.relate(v.length, k.length);
  n.relate(v.heads, k.heads);
  relate_mask(n, 3, streams);
  relate_past(n, 4, streams);
  n.relate_shape(6, {batch});
  const DataType type = n.element(0);
  const Dim all = result_batch(n, {0, 1, 2, 6}, 3);
  n.set(0, type, if_known(n.rank(0) >= 0, context_shape(split, all, heads, queries, v.width)));
  n.set(1, n.element(1), Dims{n.dim(1, 0), k.heads, length, k.width});
  n.set(2, n.element(2), Dims{n.dim(2, 0), v.heads, length, v.width});
  n.set(3, type, Dims{all, heads, queries, length});
}

// Query (B, H, S, E), key (B, G, T, E), value (B, G, T, F).
void infer_flex_attention(NodeInference& n) {
  for (size_t i = 0; i < 3; ++i) n.expect_rank(i, 4);
  n.relate_shape(1, {n.dim(0, 0), Dim(), Dim(), n.dim(0, 3)});
  n.relate_shape(2, {n.dim(0, 0), n.dim(1, 1), n.dim(1, 2), Dim()});
  n.part(n.dim(0, 1), n.dim(1, 1));
  n.set(0, n.element(0), Dims{n.dim(0, 0), n.dim(0, 1), n.dim(0, 2), n.dim(2, 3)});
}

// ---- com.microsoft

bool shares_buffer(const NodeInference& n) { return n.node().attr_int("past_present_share_buffer", 0) != 0; }

// Packed weights (D, 2 H E + H F), mask, past and present (2, B, H, P + T, E).
struct PackedInputs {
  size_t mask, past, score_bias;
};

void infer_packed_attention(NodeInference& n, DataType type, const PackedInputs& inputs) {
  n.expect_rank(0, 3);
  const Dim heads = heads_attribute(n, "num_heads", {});
  const auto sizes = n.node().attr_ints("qkv_hidden_sizes");
  if (!sizes.empty() && sizes.size() != 3) n.fail("attribute 'qkv_hidden_sizes' has other than 3 sizes");
  const Dim third = sizes.empty() ? n.part(n.dim(1, 1), Dim(3) * heads) * heads : Dim();
  const size_t past = inputs.past;
  const Dim width = sizes.empty() ? third : Dim(sizes[2]), key_width = sizes.empty() ? third : Dim(sizes[1]);
  const Dim batch = n.dim(0, 0), length = n.dim(0, 1);
  n.relate(n.dim(0, 2), n.dim(1, 0));
  if (!sizes.empty()) n.relate(n.dim(1, 1), Dim(sizes[0]) + key_width + width);
  n.relate_shape(2, {n.dim(1, 1)});
  const Dim keys = n.has(past) ? n.dim(past, 3) + length : length, head = Dim::floor_divide(key_width, heads);
  n.relate_shape(past, {2, batch, heads, Dim(), head});
  const Streams streams{batch, heads, heads, length, keys, head, Dim::floor_divide(width, heads)};
  relate_key_mask(n, inputs.mask, streams);
  if (inputs.score_bias > 0) relate_mask(n, inputs.score_bias, streams);
  n.set(0, type, Dims{batch, length, width});
  if (n.has(past) && shares_buffer(n)) return n.set(1, type, n.shape(past));
  n.set(1, type, Dims{2, batch, heads, keys, head});
}

// Query (B, S, H E), or all packed (B, S, H, 3, E). Keys (B, T, H E), cached (B, H, T, E), or packed with the values
// (B, T, H, 2, E). A past of keys (B, H, P, E) has that of values, its length and the beams behind it.
struct HeadInputs {
  size_t bias, mask, score_bias, past;
};

// `s.keys`: the rows that are added.
void relate_multi_head_attention(NodeInference& n, const HeadInputs& inputs, Streams s, const Dim& query_width) {
  const size_t past_length = inputs.past + 2;
  if (n.rank(0) == 3) {
    n.part(query_width, s.heads);
    n.relate(query_width, s.heads * s.key_width);
  }
  n.relate_shape(0, {s.batch, s.queries, s.heads, 3, s.key_width});
  n.relate_shape(1, {s.batch, s.keys, s.heads, 2, s.key_width});
  for (size_t i = 1; i < 3; ++i) n.relate(n.dim(i, 0), s.batch);
  if (n.rank(2) == 3) n.relate(n.dim(2, 1), s.keys);
  if (n.rank(1) == 4) n.relate(n.dim(1, 1), s.heads);
  if (n.rank(2) == 4) n.relate_shape(2, {s.batch, s.heads, s.keys, Dim()});
  n.relate_shape(inputs.bias, {s.heads * (Dim(2) * s.key_width + s.value_width)});
  relate_past(n, inputs.past, s);
  if (n.has(past_length)) {  // half of the buffer is filled
    const Dim filled = Dim::floor_divide(n.dim(inputs.past, 2), 2);
    n.relate_shape(past_length, {1}, false);
    n.need_integers(past_length, filled, filled);
    s.keys = s.keys + filled;
  } else if (n.has(inputs.past)) {
    s.keys = s.keys + n.dim(inputs.past, 2);
  }
  relate_key_mask(n, inputs.mask, s);
  relate_mask(n, inputs.score_bias, s);
}

void infer_multi_head_attention(NodeInference& n, const HeadInputs& inputs) {
  const size_t past = inputs.past;
  const Dim heads = heads_attribute(n, "num_heads", {});
  const Dim batch = n.dim(0, 0), queries = n.dim(0, 1);
  const size_t packed = n.rank(0) == 5 ? 0 : 1;
  const bool is_packed = n.rank(packed) == 5;
  const Heads k = is_packed ? Heads{heads, n.dim(packed, 1), n.dim(packed, 4)} : split_heads(n, 1, heads);
  const Heads v = is_packed ? k : split_heads(n, 2, heads);
  relate_multi_head_attention(n, inputs, {batch, heads, heads, queries, k.length, k.width, v.width}, n.dim(0, 2));
  const Dim length = !n.has(past) ? k.length : shares_buffer(n) ? n.dim(past, 2) : n.dim(past, 2) + k.length;
  const DataType type = n.element(0);
  n.set(0, type, Dims{batch, queries, heads * v.width});
  n.set(1, type, Dims{batch, heads, length, k.width});
  n.set(2, type, Dims{batch, heads, length, v.width});
  n.set(3, type, Dims{batch, heads, queries, length});
}

void relate_group_query_attention(NodeInference& n, Streams s) {
  for (size_t i = 1; i < 3; ++i) n.relate_shape(i, {s.batch, s.queries, s.groups * s.key_width});
  if (n.node().attr_int("kv_cache_bit_width", 0) != 4) relate_past(n, 3, s);
  s.keys = n.has(3) ? n.dim(3, 2) + s.queries : s.queries;
  n.relate_shape(5, {s.batch});
  n.need_integers(5, n.has(3) ? s.queries - 1 : Dim(0), s.keys - 1);
  n.relate_shape(6, {1});
  n.need_integers(6, s.keys, s.keys);
  for (size_t i = 7; i < 9; ++i) {  // tables of at least as many positions
    n.relate(n.dim(i, 0), s.keys, false);
    n.relate(Dim(2) * n.dim(i, 1), s.key_width, false);
  }
  n.relate_shape(9, {s.batch, s.queries});
  relate_mask(n, 10, s);
}

// Query (B, S, H E), or packed with keys and values (B, S, (H + 2 G) E); past (B, G, P, E) at 3 and 4. The buffer of
// the present holds what it held and at least the total length (input 6), as floats, bytes, or two numbers a byte.
void infer_group_query_attention(NodeInference& n) {
  n.expect_rank(0, 3);
  const Dim heads = heads_attribute(n, "num_heads", {}), groups = heads_attribute(n, "kv_num_heads", {});
  const Dim all_heads = n.has(1) ? heads : heads + Dim(2) * groups;
  const Dim width = n.part(n.dim(0, 2), all_heads);
  relate_group_query_attention(n, {n.dim(0, 0), heads, groups, n.dim(0, 1), {}, width, width});
  const auto total = n.elements(6);
  const Dim needed = total && total->integers.size() == 1 ? total->integers[0] : Dim();
  const Dim length = n.has(3) ? Dim::maximum(n.dim(3, 2), needed) : needed;
  n.set(0, n.element(0), Dims{n.dim(0, 0), n.dim(0, 1), heads * width});
  const int64_t bits = n.node().attr_int("kv_cache_bit_width", 0);
  const DataType cached = bits == 8 ? DataType::kInt8 : bits == 4 ? DataType::kUInt8 : n.element(0);
  const Dim cached_width = bits == 4 ? Dim::floor_divide(width, 2) : width;
  for (size_t k = 1; k < 3; ++k) n.set(k, cached, Dims{n.dim(0, 0), groups, length, cached_width});
  n.set(3, n.element(0), Dims{n.dim(0, 0), heads, n.dim(0, 1), needed});
}

// x (B, S, H E) or (B, H, S, E), positions (1) or (B, S), tables (positions, R / 2) for the first R <= E numbers of a
// head.
void infer_rotary_embedding(NodeInference& n) {
  const bool split = n.rank(0) == 4;
  const int64_t heads = n.node().attr_int("num_heads", 0);
  const Dim turned = Dim(2) * n.dim(2, 1), queries = n.dim(0, split ? 2 : 1);
  if (!split && heads == 0) {
    n.part(n.dim(0, 2), turned);
  } else {
    n.relate(split ? n.dim(0, 3) : n.part(n.dim(0, 2), heads), turned, false);
  }
  n.relate_shape(1, {1});
  n.relate_shape(1, {n.dim(0, 0), queries});
  n.relate(n.dim(2, 0), queries, false);
  n.relate_shape(3, {n.dim(2, 0), n.dim(2, 1)});
  n.set(0, n.element(0), n.shape(0));
}

// Query (B, S, D): a bias (B, H, S, S).
void infer_gated_relative_position_bias(NodeInference& n) {
  const Dim length = n.dim(0, 1);
  n.set(0, n.element(0), Dims{n.dim(0, 0), heads_attribute(n, "num_heads", {}), length, length});
}

}  // namespace

InferRules attention_rules() {
  return {
      {"ai.attune", "Attention", 1, infer_attune_attention},
      {"ai.attune", "PositionEmbedding", 2, infer_position_embedding},
      {"ai.attune", "RelativePositionBias", 3, infer_relative_position_bias},
      {"", "Attention", 3, infer_onnx_attention},
      {"ai.onnx.preview", "FlexAttention", 3, infer_flex_attention},
      {"com.microsoft", "Attention", 2,
       [](NodeInference& n) {
         infer_packed_attention(n, n.element(0), {3, 4, 5});
       }},
      {"com.microsoft", "QAttention", 5,
       [](NodeInference& n) {
         infer_packed_attention(n, n.element(3), {5, 8, 0});
       }},
      {"com.microsoft", "MultiHeadAttention", 1,
       [](NodeInference& n) {
         infer_multi_head_attention(n, {3, 4, 5, 6});
       }},
      {"com.microsoft", "DecoderMaskedMultiHeadAttention", 1,
       [](NodeInference& n) {
         infer_multi_head_attention(n, {10, 3, 4, 5});
       }},
      {"com.microsoft", "GroupQueryAttention", 1, infer_group_query_attention},
      {"com.microsoft", "RotaryEmbedding", 4, infer_rotary_embedding},
      {"com.microsoft", "RelativePositionBias", 3, infer_relative_position_bias},
      {"com.microsoft", "GatedRelativePositionBias", 1, infer_gated_relative_position_bias},
  };
}

}  // namespace attune
