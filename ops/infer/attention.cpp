// Attention operators: ai.attune, ai.onnx (opset 23 on) and com.microsoft.
// B batch, S queries, P past keys, T new keys, H query heads, G key/value heads, E and F widths of a key and value
// head.
#include <fmt/format.h>

#include "ops/infer/node_inference.h"

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
  return {heads, n.dim(input, 1), Dim::floor_divide(n.dim(input, 2), heads)};
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

// ---- ai.attune

// Heads of the keys or values after the projection `weight`, if there is one. The source of absent keys is the query,
// that of absent values the keys' input.
Heads projected(NodeInference& n, size_t source, size_t weight, const Dim& heads) {
  Heads out = split_heads(n, source, heads);
  if (n.has(weight)) out.width = Dim::floor_divide(n.dim(weight, 1), heads);
  return out;
}

void infer_attune_attention(NodeInference& n) {
  for (size_t i = 0; i < 3; ++i) expect_rank_3_or_4(n, i);
  const size_t key = n.has(1) ? 1 : 0, value = n.has(2) ? 2 : key;
  const bool split = n.rank(0) == 4;
  const Dim heads = split ? n.dim(0, 1) : heads_attribute(n, "num_heads", 1);
  const Dim groups = n.rank(key) == 4 ? n.dim(key, 1) : heads_attribute(n, "num_kv_heads", heads);
  const Heads k = projected(n, key, 4, groups), v = projected(n, value, 5, groups);
  const Dim batch = n.dim(0, 0), queries = n.dim(0, split ? 2 : 1);
  const Dim length = n.has(11) ? n.dim(11, 2) + k.length : k.length;
  const DataType type = n.element(0);
  const bool mean = n.node().attr_string("weights_output", "normalized") == "head_mean";
  n.set(0, type, if_known(n.rank(0) >= 0, context_shape(split, batch, heads, queries, v.width)));
  n.set(1, type, Dims{batch, groups, length, k.width});
  n.set(2, type, Dims{batch, groups, length, v.width});
  n.set(3, type, Dims{batch, mean ? Dim(1) : heads, queries, length});
  n.set(4, DataType::kInt64, Dims{batch, heads});
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
  const DataType type = n.element(0);
  n.set(0, type, if_known(n.rank(0) >= 0, context_shape(split, batch, heads, queries, v.width)));
  n.set(1, n.element(1), Dims{batch, k.heads, length, k.width});
  n.set(2, n.element(2), Dims{batch, v.heads, length, v.width});
  n.set(3, type, Dims{batch, heads, queries, length});
}

// Query (B, H, S, E), key (B, G, T, E), value (B, G, T, F).
void infer_flex_attention(NodeInference& n) {
  for (size_t i = 0; i < 3; ++i) n.expect_rank(i, 4);
  n.set(0, n.element(0), Dims{n.dim(0, 0), n.dim(0, 1), n.dim(0, 2), n.dim(2, 3)});
}

// ---- com.microsoft

bool shares_buffer(const NodeInference& n) { return n.node().attr_int("past_present_share_buffer", 0) != 0; }

// Packed weights (D, 2 H E + H F); past and present (2, B, H, P + T, E).
void infer_packed_attention(NodeInference& n, DataType type, size_t past) {
  n.expect_rank(0, 3);
  const Dim heads = heads_attribute(n, "num_heads", {});
  const auto sizes = n.node().attr_ints("qkv_hidden_sizes");
  if (!sizes.empty() && sizes.size() != 3) n.fail("attribute 'qkv_hidden_sizes' has other than 3 sizes");
  const Dim third = Dim::floor_divide(n.dim(1, 1), 3);
  const Dim width = sizes.empty() ? third : Dim(sizes[2]), key_width = sizes.empty() ? third : Dim(sizes[1]);
  const Dim batch = n.dim(0, 0), length = n.dim(0, 1);
  n.set(0, type, Dims{batch, length, width});
  if (n.has(past) && shares_buffer(n)) return n.set(1, type, n.shape(past));
  n.set(1, type,
        Dims{2, batch, heads, n.has(past) ? n.dim(past, 3) + length : length, Dim::floor_divide(key_width, heads)});
}

// Query (B, S, H E), or all packed (B, S, H, 3, E). Keys (B, T, H E), cached (B, H, T, E), or packed with the values
// (B, T, H, 2, E). `past` is the input of past keys (B, H, P, E), past values follow.
void infer_multi_head_attention(NodeInference& n, size_t past) {
  const Dim heads = heads_attribute(n, "num_heads", {});
  const Dim batch = n.dim(0, 0), queries = n.dim(0, 1);
  const size_t packed = n.rank(0) == 5 ? 0 : 1;
  const bool is_packed = n.rank(packed) == 5;
  const Heads k = is_packed ? Heads{heads, n.dim(packed, 1), n.dim(packed, 4)} : split_heads(n, 1, heads);
  const Heads v = is_packed ? k : split_heads(n, 2, heads);
  const Dim length = !n.has(past) ? k.length : shares_buffer(n) ? n.dim(past, 2) : n.dim(past, 2) + k.length;
  const DataType type = n.element(0);
  n.set(0, type, Dims{batch, queries, heads * v.width});
  n.set(1, type, Dims{batch, heads, length, k.width});
  n.set(2, type, Dims{batch, heads, length, v.width});
  n.set(3, type, Dims{batch, heads, queries, length});
}

// Query (B, S, H E), or packed with keys and values (B, S, (H + 2 G) E); past (B, G, P, E) at 3 and 4. The buffer of
// the present holds what it held and at least the total length (input 6), as floats, bytes, or two numbers a byte.
void infer_group_query_attention(NodeInference& n) {
  n.expect_rank(0, 3);
  const Dim heads = heads_attribute(n, "num_heads", {}), groups = heads_attribute(n, "kv_num_heads", {});
  const Dim all_heads = n.has(1) ? heads : heads + Dim(2) * groups;
  const Dim width = Dim::floor_divide(n.dim(0, 2), all_heads);
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
      {"com.microsoft", "Attention", 2, [](NodeInference& n) { infer_packed_attention(n, n.element(0), 4); }},
      {"com.microsoft", "QAttention", 5, [](NodeInference& n) { infer_packed_attention(n, n.element(3), 8); }},
      {"com.microsoft", "MultiHeadAttention", 1, [](NodeInference& n) { infer_multi_head_attention(n, 6); }},
      {"com.microsoft", "DecoderMaskedMultiHeadAttention", 1,
       [](NodeInference& n) { infer_multi_head_attention(n, 5); }},
      {"com.microsoft", "GroupQueryAttention", 1, infer_group_query_attention},
      {"com.microsoft", "RelativePositionBias", 3, infer_relative_position_bias},
      {"com.microsoft", "GatedRelativePositionBias", 1, infer_gated_relative_position_bias},
  };
}

}  // namespace attune
