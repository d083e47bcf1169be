// The products of RNN, GRU and LSTM, by constant or computed weights.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ops/kernel.h"
#include "ops/support/int8_product.h"
#include "ops/support/linear.h"

namespace attune {

// 8-bit weights of all directions: values (D, K, N), scales (D) or (D, N), zero points as the scales, or left out.
struct QuantizedDirections {
  const Tensor& values;
  const Tensor& scales;
  const Tensor* zero_points;
};

// y (rows, N) = x (rows, K) w' + bias for weights (N, K) of any float type; or for 8-bit weights (K, N), where all of
// x is quantised to uint8 by its range first (float only).
class Projection {
 public:
  Projection(const Tensor& weights, const KernelOptions& options);
  // Throws Error(kInvalidArgument) where shapes don't fit.
  Projection(const QuantizedDirections& weights, int64_t direction);
  int64_t inner() const;  // K
  void run(const float* x, int64_t rows, float* y, const float* bias, BufferPool* pool) const;
  void run(const double* x, int64_t rows, double* y, const double* bias, BufferPool* pool) const;

 private:
  struct Quantized {
    Int8Weights values;
    std::vector<float> scales;   // one, or one for each column
    std::vector<int32_t> zeros;  // likewise
    Int8Product product;
  };
  void run_quantized(const float* x, int64_t rows, float* y, const float* bias, BufferPool* pool) const;

  std::unique_ptr<LinearWeights> linear_;  // of float, float16, bfloat16
  std::unique_ptr<Quantized> quantized_;   // of 8-bit integers
  Tensor weights_;                         // of double
};

// Rows [begin, end) of the second axis of t[first], t of rank 3: a matrix that shares memory.
Tensor matrix_slice(const Tensor& t, int64_t first, int64_t begin, int64_t end);

}  // namespace attune
