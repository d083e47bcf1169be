// Weights stored narrower than they were: in ordinary ONNX, so that any runtime reads them.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/graph.h"

namespace attune {

enum class WeightsType { kUnchanged, kFloat16, kBFloat16, kInt8, kInt4 };

// What attune.activations says (see ops/kernel.h) where the other operand of products with such weights may be rounded:
// "int8" with int8 and int4, "int16" with 16-bit weights.
std::string_view activations_of(WeightsType type);

// "float16", "bfloat16", "int8", "int4". Throws Error(kInvalidArgument) for another name.
WeightsType weights_type_from_name(std::string_view name);

struct WeightsOptions {
  WeightsType type = WeightsType::kUnchanged;
  int64_t group = 64;               // int4: 32, 64 or 128 rows share a scale
  bool rounded_activations = true;  // attune may round the other operand of products, too: see activations_of()
};

// Largest difference, relative to the largest value of an output, that rounding weights so may make: a bound for gross
// errors, which models with random weights keep. What it costs in quality only the task can tell.
double rounding_tolerance(WeightsType type);

struct StoredWeights {
  size_t count = 0;      // matrices that were stored narrower
  size_t sensitive = 0;  // of these, in float16 where int8 or int4 was asked for
};

// Float32 matrices that products (MatMul, Gemm, ai.attune's Linear and Attention) or embeddings (Gather) read become
// 16-bit constants behind a Cast, or integers behind a DequantizeLinear without zero points: int8 with one scale for
// each output of a product or row of a table, int4 with one for each group of `group` along the other axis, too.
// The second product of a feed-forward layer whose residual stream is normalised by its root mean square only (T5) is
// stored as float16 instead of int8 and int4: the sums that it adds are few and large. Small matrices stay. The model's
// opset is raised to what the nodes need. Throws Error(kUnsupported) if that isn't possible; Error(kInvalidArgument)
// for another group.
StoredWeights store_weights(Model& model, const WeightsOptions& options);

}  // namespace attune
