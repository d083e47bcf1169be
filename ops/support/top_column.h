// The largest column of a product with constant weights, without storing the product: what choosing a token needs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/support/panel_weights.h"

namespace attune {

// Weights (K, N) as stretches of columns, over the memory of whole ones.
class StretchedWeights {
 public:
  explicit StretchedWeights(std::shared_ptr<const PanelWeights> whole);

  int64_t inner() const { return whole_->inner(); }
  int64_t columns() const { return whole_->columns(); }

  // For each row of x (rows, K) w + bias the column with the largest result, the first of equal ones, but none of
  // `excluded` (ascending; may lie outside the weights). NaN counts as the smallest; 0 if nothing is larger than -inf.
  // bias (N) may be null. The results that are compared are those of PanelWeights::multiply(), bit for bit.
  void top_column(const float* x, int64_t rows, const float* bias, std::span<const int64_t> excluded, int64_t* columns,
                  BufferPool* pool) const;

 private:
  std::shared_ptr<const PanelWeights> whole_;
  std::vector<PanelWeights> stretches_;
};

}  // namespace attune
