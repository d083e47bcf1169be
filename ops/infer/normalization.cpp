// Normalisation, embedding and quantisation: outputs like the first input, and statistics.
#include <fmt/format.h>

#include "ops/infer/node_inference.h"

namespace attune {
namespace {

void like_first(NodeInference& n) { n.set(0, n.element(0), n.shape(0)); }

// The better known of two shapes that must be equal.
std::optional<Dims> same_shape(NodeInference& n, size_t a, size_t b) {
  auto x = n.shape(a);
  const auto y = n.shape(b);
  if (!x || !y || x->size() != y->size()) return x;
  for (size_t i = 0; i < x->size(); ++i)
    if (!(*y)[i].is(1)) (*x)[i] = n.unify((*x)[i], (*y)[i], fmt::format("sizes of axis {}", i));
  return x;
}

// The shape with 1 from `axis` on: that of means and deviations.
std::optional<Dims> statistics_shape(const NodeInference& n, std::optional<Dims> shape, int64_t axis) {
  if (!shape) return shape;
  for (size_t i = n.axis(axis, shape->size()); i < shape->size(); ++i) (*shape)[i] = 1;
  return shape;
}

// Scale and bias for the axes from `axis` on.
void relate_parameters(NodeInference& n, size_t first, int64_t axis) {
  const auto shape = n.shape(0);
  if (!shape || shape->empty()) return;
  const auto begin = shape->begin() + static_cast<std::ptrdiff_t>(n.axis(axis, shape->size()));
  for (size_t i = first; i < n.input_count(); ++i) n.relate_shape(i, Dims(begin, shape->end()));
}

void infer_layer_normalization(NodeInference& n) {
  like_first(n);
  relate_parameters(n, 1, n.node().attr_int("axis", -1));
  const auto statistics = statistics_shape(n, n.shape(0), n.node().attr_int("axis", -1));
  const auto type = static_cast<DataType>(n.node().attr_int("stash_type", static_cast<int64_t>(DataType::kFloat)));
  n.set(1, type, statistics);
  n.set(2, type, statistics);
}

// com.microsoft: output, mean, deviation, and the sum that was normalised.
void infer_skip_normalization(NodeInference& n) {
  const auto shape = same_shape(n, 0, 1);
  const auto statistics = statistics_shape(n, shape, -1);
  relate_parameters(n, 2, -1);
  n.set(0, n.element(0), shape);
  n.set(1, DataType::kFloat, statistics);
  n.set(2, DataType::kFloat, statistics);
  n.set(3, n.element(0), shape);
}

// ai.attune: x, residual, scale, bias; the normalised sum, and the sum.
void infer_residual_normalization(NodeInference& n) {
  const auto shape = n.has(1) ? same_shape(n, 0, 1) : n.shape(0);
  relate_parameters(n, 2, -1);
  n.set(0, n.element(0), shape);
  n.set(1, n.element(0), shape);
}

// com.microsoft: ids (B, T), word embedding (V, D) at input 2.
void infer_embed_layer_normalization(NodeInference& n) {
  const Dims shape{n.dim(0, 0), n.dim(0, 1), n.dim(2, 1)};
  n.set(0, n.element(2), shape);
  n.set(1, DataType::kInt32, Dims{n.dim(0, 0)});
  n.set(2, n.element(2), shape);
}

// In training mode also the running mean and variance.
void infer_batch_normalization(NodeInference& n) {
  like_first(n);
  for (size_t k = 1; k < n.output_count(); ++k) n.set(k, n.element(3), n.shape(3));
}

void infer_quantize(NodeInference& n) {
  const auto given = static_cast<DataType>(n.node().attr_int("output_dtype", 0));
  n.set(0, n.has(2) ? n.element(2) : given != DataType::kUndefined ? given : DataType::kUInt8, n.shape(0));
}

void infer_dequantize(NodeInference& n) {
  const auto given = static_cast<DataType>(n.node().attr_int("output_dtype", 0));
  n.set(0, given != DataType::kUndefined ? given : n.element(1), n.shape(0));
}

void infer_dynamic_quantize(NodeInference& n) {
  n.set(0, DataType::kUInt8, n.shape(0));
  n.set(1, DataType::kFloat, Dims{});
  n.set(2, DataType::kUInt8, Dims{});
}

}  // namespace

InferRules normalization_rules() {
  return {
      {"", "LayerNormalization", 2, infer_layer_normalization},
      {"", "SimplifiedLayerNormalization", 2, infer_layer_normalization},
      {"", "RMSNormalization", 2, infer_layer_normalization},
      {"", "GroupNormalization", 3, like_first},
      {"", "InstanceNormalization", 3, like_first},
      {"", "LpNormalization", 1, like_first},
      {"", "MeanVarianceNormalization", 1, like_first},
      {"", "LRN", 1, like_first},
      {"", "RotaryEmbedding", 3, like_first},
      {"", "BatchNormalization", 5, infer_batch_normalization},
      {"", "QuantizeLinear", 2, infer_quantize},
      {"", "DequantizeLinear", 2, infer_dequantize},
      {"", "DynamicQuantizeLinear", 1, infer_dynamic_quantize},
      {"com.microsoft", "SkipLayerNormalization", 2, infer_skip_normalization},
      {"com.microsoft", "SkipSimplifiedLayerNormalization", 2, infer_skip_normalization},
      {"com.microsoft", "EmbedLayerNormalization", 3, infer_embed_layer_normalization},
      {"com.microsoft", "QuantizeLinear", 2, infer_quantize},
      {"com.microsoft", "DequantizeLinear", 2, infer_dequantize},
      {"ai.attune", "ResidualNormalization", 1, infer_residual_normalization},
  };
}

}  // namespace attune
