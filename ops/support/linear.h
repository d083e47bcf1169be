// Products with constant weights: what Linear, Gemm, MatMul and the recurrent operators share.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ops/kernel.h"
#include "ops/support/panel_weights.h"
#include "ops/support/product.h"

namespace attune {

// The weights of a product as a node has them: a constant, or one behind a node that widens it (see stored_weights.h).
struct ConstantWeights {
  Tensor values;      // (K, N), or (N, K) if transposed: float, float16, bfloat16; int8 or int4 with scales
  Tensor scales;      // float (K / group, N)
  int64_t group = 0;  // rows that share a scale; 0: all
  bool transposed = false;
  DataType type = DataType::kFloat;  // as the product sees them

  int64_t inner() const { return values.dim(transposed ? 1 : 0); }
  int64_t columns() const { return values.dim(transposed ? 0 : 1); }
};
// Those of input `i` of a node; nothing if it is no such constant. With options.pack_weights false only plain ones.
std::optional<ConstantWeights> constant_weights(const KernelContext& context, size_t i, bool transposed);
// True if they can stand side by side in one product.
bool fit_together(std::span<const ConstantWeights> weights);

// Weights (K, N), made ready once. They are packed into panels, which serve few rows at the speed of reading them and
// many rows at oneDNN's speed or better (measured with AVX2 and AVX-512), so one copy is enough;
// equal weights share it. Immutable; thread-safe.
class LinearWeights {
 public:
  // `weights`: (K, N), or (N, K) if `transposed`; float, float16 or bfloat16. With options.pack_weights false they are
  // kept by reference, and products go to oneDNN.
  LinearWeights(const Tensor& weights, bool transposed, const KernelOptions& options);
  // Several that fit together, side by side: (K, N1 + N2 + ...).
  LinearWeights(const std::vector<ConstantWeights>& side_by_side, const KernelOptions& options);
  // True if there is a form for this tensor: rank 2 and one of these types.
  static bool serves(const Tensor& weights);
  // constant_weights() of input `i`, made ready; null if there are none.
  static std::unique_ptr<LinearWeights> of_input(const KernelContext& context, size_t i, bool transposed);

  int64_t inner() const { return inner_; }
  int64_t columns() const { return columns_; }
  const PanelWeights* panels() const { return panels_.get(); }  // null if not packed

  // y (rows, N) = activation(x (rows, K) w + bias) + residual. Contiguous rows. y may be the epilogue's residual, not
  // x.
  void run(const float* x, int64_t rows, float* y, const Epilogue& epilogue, BufferPool* pool) const;
  std::string implementation() const;

 private:
  int64_t inner_, columns_;
  std::shared_ptr<const PanelWeights> panels_;
  Tensor plain_;  // if not packed
  bool transposed_ = false;
  FloatProduct product_;
};

// y (rows, N) = activation(y + bias) + residual, in place.
void apply_epilogue(float* y, int64_t rows, int64_t columns, const Epilogue& epilogue);
// "none", "relu", "gelu" ... Throws Error(kInvalidModel) for other names.
Activation activation_from_name(std::string_view name);

}  // namespace attune
