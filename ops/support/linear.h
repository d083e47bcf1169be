// Products with constant weights: what Linear, Gemm, MatMul and the recurrent operators share.
#pragma once

#include <memory>
#include <string>

#include "ops/kernel.h"
#include "ops/support/dnnl.h"
#include "ops/support/panel_weights.h"

namespace attune {

// Weights (K, N), made ready once. Few rows read panels (see PanelWeights); many rows go to oneDNN, which reads the
// constant as it lies in the model (a mapped file), so that the panels are the only copy. Immutable; thread-safe.
class LinearWeights {
 public:
  // `weights`: (K, N), or (N, K) if `transposed`; float, float16 or bfloat16; kept by reference.
  // With options.pack_weights false there are no panels.
  LinearWeights(const Tensor& weights, bool transposed, const KernelOptions& options);
  // True if there is a form for this tensor: rank 2 and one of these types.
  static bool serves(const Tensor& weights);

  int64_t inner() const { return inner_; }
  int64_t columns() const { return columns_; }

  // y (rows, N) = activation(x (rows, K) w + bias) + residual. Contiguous rows. y may be the epilogue's residual, not x.
  void run(const float* x, int64_t rows, float* y, const Epilogue& epilogue, BufferPool* pool) const;
  std::string implementation() const;

 private:
  // Up to so many rows the panels are as fast as oneDNN or faster.
  static constexpr int64_t kFewRows = 16;

  Tensor weights_;
  bool transposed_;
  int64_t inner_, columns_;
  PanelWeights panels_;
  mutable onednn::MatMulCache primitives_;
};

// y (rows, N) = activation(y + bias) + residual, in place.
void apply_epilogue(float* y, int64_t rows, int64_t columns, const Epilogue& epilogue);
// "none", "relu", "gelu" ... Throws Error(kInvalidModel) for other names.
Activation activation_from_name(std::string_view name);

}  // namespace attune
