// The largest columns of a product with constant weights, without storing the product: what choosing tokens needs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/support/panel_weights.h"

namespace attune {

struct TopColumns {
  int64_t count = 1;                  // wanted of each row; at most the columns of the weights
  std::span<const int64_t> excluded;  // ascending; none of them is given; may lie outside the weights
  // (rows): a row's results r become (r - shift) - log + offset, with log_sum_row() of all columns, excluded ones too:
  // what log_softmax_row() gives, plus the offset. Null: they stay as they are.
  const float* offsets = nullptr;
  // Results (rows, count): a row's largest first, of equal ones the first column. NaN is never given. Where there are
  // not so many: -inf and column 0.
  float* values = nullptr;
  int64_t* columns = nullptr;
};

// Weights (K, N) as stretches of columns, over the memory of whole ones.
class StretchedWeights {
 public:
  explicit StretchedWeights(const PanelWeights& whole);

  int64_t inner() const { return inner_; }
  int64_t columns() const { return columns_; }

  // Of x (rows, K) w + bias, whose rows are dense; bias (N) may be null. Columns and values are those of the results of
  // PanelWeights::multiply(), bit for bit.
  void top_columns(const float* x, int64_t rows, const float* bias, const TopColumns& top, BufferPool* pool) const;

 private:
  // The columns of a call's product, a stretch at a time.
  template <class Take>
  void each_stretch(const float* x, int64_t rows, const float* bias, int parts, BufferPool* pool, Take&& take) const;

  int64_t inner_, columns_;
  std::vector<PanelWeights> stretches_;
};

}  // namespace attune
