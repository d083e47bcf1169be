#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/support/small_product.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h must come before highway.h.
#include <hwy/highway.h>

#include "ops/support/small_product.h"

HWY_BEFORE_NAMESPACE();
namespace attune::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Rows [row, row + kRows) where rows of b are contiguous: one pass over b for kVectors vectors of columns.
template <size_t kRows, size_t kVectors>
HWY_INLINE void multiply_columns(const SmallProduct& p, int64_t row, int64_t column) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  V sum[kRows][kVectors];
  for (size_t r = 0; r < kRows; ++r)
    for (size_t v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(d);
  const float* b = p.b + column;
  for (int64_t k = 0; k < p.k; ++k, b += p.b_k) {
    V w[kVectors];
    for (size_t v = 0; v < kVectors; ++v) w[v] = hn::LoadU(d, b + v * lanes);
    for (size_t r = 0; r < kRows; ++r) {
      const V x = hn::Set(d, p.a[(row + static_cast<int64_t>(r)) * p.a_row + k]);
      for (size_t v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(x, w[v], sum[r][v]);
    }
  }
  for (size_t r = 0; r < kRows; ++r)
    for (size_t v = 0; v < kVectors; ++v)
      hn::StoreU(sum[r][v], d, p.c + (row + static_cast<int64_t>(r)) * p.c_row + column + v * lanes);
}

template <size_t kRows>
void multiply_rows(const SmallProduct& p, int64_t row, int64_t begin, int64_t end) {
  constexpr size_t kVectors = kRows <= 2 ? 4 : 2;
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  int64_t n = begin;
  for (; n + lanes * static_cast<int64_t>(kVectors) <= end; n += lanes * static_cast<int64_t>(kVectors))
    multiply_columns<kRows, kVectors>(p, row, n);
  for (; n + lanes <= end; n += lanes) multiply_columns<kRows, 1>(p, row, n);
  for (; n < end; ++n)
    for (size_t r = 0; r < kRows; ++r) {
      const float* a = p.a + (row + static_cast<int64_t>(r)) * p.a_row;
      float sum = 0;
      for (int64_t k = 0; k < p.k; ++k) sum += a[k] * p.b[k * p.b_k + n];
      p.c[(row + static_cast<int64_t>(r)) * p.c_row + n] = sum;
    }
}

// Rows [row, row + kRows) by columns [column, column + kColumns) where columns of b are contiguous.
template <size_t kRows, size_t kColumns>
HWY_INLINE void multiply_dots(const SmallProduct& p, int64_t row, int64_t column) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  V sum[kRows][kColumns];
  for (size_t r = 0; r < kRows; ++r)
    for (size_t c = 0; c < kColumns; ++c) sum[r][c] = hn::Zero(d);
  const float* a = p.a + row * p.a_row;
  const float* b = p.b + column * p.b_n;
  int64_t k = 0;
  for (; k + lanes <= p.k; k += lanes) {
    V w[kColumns];
    for (size_t c = 0; c < kColumns; ++c) w[c] = hn::LoadU(d, b + static_cast<int64_t>(c) * p.b_n + k);
    for (size_t r = 0; r < kRows; ++r) {
      const V x = hn::LoadU(d, a + static_cast<int64_t>(r) * p.a_row + k);
      for (size_t c = 0; c < kColumns; ++c) sum[r][c] = hn::MulAdd(x, w[c], sum[r][c]);
    }
  }
  for (size_t r = 0; r < kRows; ++r)
    for (size_t c = 0; c < kColumns; ++c) {
      float total = hn::GetLane(hn::SumOfLanes(d, sum[r][c]));
      for (int64_t i = k; i < p.k; ++i)
        total += a[static_cast<int64_t>(r) * p.a_row + i] * b[static_cast<int64_t>(c) * p.b_n + i];
      p.c[(row + static_cast<int64_t>(r)) * p.c_row + column + static_cast<int64_t>(c)] = total;
    }
}

template <size_t kRows>
void multiply_dot_rows(const SmallProduct& p, int64_t row, int64_t begin, int64_t end) {
  int64_t n = begin;
  for (; n + 4 <= end; n += 4) multiply_dots<kRows, 4>(p, row, n);
  for (; n < end; ++n) multiply_dots<kRows, 1>(p, row, n);
}

void small_product(const SmallProduct& p, int64_t begin, int64_t end) {
  int64_t row = 0;
  if (p.b_n == 1) {
    for (; row + 4 <= p.m; row += 4) multiply_rows<4>(p, row, begin, end);
    for (; row + 2 <= p.m; row += 2) multiply_rows<2>(p, row, begin, end);
    if (row < p.m) multiply_rows<1>(p, row, begin, end);
  } else {
    for (; row + 2 <= p.m; row += 2) multiply_dot_rows<2>(p, row, begin, end);
    if (row < p.m) multiply_dot_rows<1>(p, row, begin, end);
  }
}

}  // namespace attune::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attune {

HWY_EXPORT(small_product);

void small_product(const SmallProduct& p, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(small_product)(p, begin, end);
}

}  // namespace attune
#endif
