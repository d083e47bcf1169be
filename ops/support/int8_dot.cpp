#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/support/int8_dot.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h must come before highway.h.
#include <hwy/highway.h>

#include "ops/support/int8_dot.h"

HWY_BEFORE_NAMESPACE();
namespace attune::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Pairs of 16-bit products are added in 32 bits: unlike products of 8 bits added in 16, that can't saturate.
template <size_t kRows, size_t kColumns>
HWY_INLINE void dots(const Int8Dots& d, int64_t row, int64_t column) {
  const hn::CappedTag<int16_t, 32> d16;
  const hn::RepartitionToWide<decltype(d16)> d32;
  const hn::Rebind<int8_t, decltype(d16)> s8;
  const hn::Rebind<uint8_t, decltype(d16)> u8;
  using V32 = hn::Vec<decltype(d32)>;
  using V16 = hn::Vec<decltype(d16)>;
  V32 sum[kRows][kColumns], odd[kRows][kColumns];
  for (size_t r = 0; r < kRows; ++r)
    for (size_t c = 0; c < kColumns; ++c) sum[r][c] = odd[r][c] = hn::Zero(d32);
  const uint8_t* x = d.x + row * d.x_row;
  const int8_t* w = d.w + column * d.w_row;
  for (int64_t k = 0; k < d.n; k += static_cast<int64_t>(hn::Lanes(d16))) {
    V16 b[kColumns];
    for (size_t c = 0; c < kColumns; ++c)
      b[c] = hn::PromoteTo(d16, hn::LoadU(s8, w + static_cast<int64_t>(c) * d.w_row + k));
    for (size_t r = 0; r < kRows; ++r) {
      const V16 a = hn::PromoteTo(d16, hn::LoadU(u8, x + static_cast<int64_t>(r) * d.x_row + k));
      for (size_t c = 0; c < kColumns; ++c)
        sum[r][c] = hn::ReorderWidenMulAccumulate(d32, a, b[c], sum[r][c], odd[r][c]);
    }
  }
  for (size_t r = 0; r < kRows; ++r)
    for (size_t c = 0; c < kColumns; ++c)
      d.y[(row + static_cast<int64_t>(r)) * d.y_row + column + static_cast<int64_t>(c)] =
          hn::GetLane(hn::SumOfLanes(d32, hn::Add(sum[r][c], odd[r][c])));
}

template <size_t kRows>
void dot_rows(const Int8Dots& d, int64_t row) {
  int64_t c = 0;
  for (; c + 4 <= d.columns; c += 4) dots<kRows, 4>(d, row, c);
  for (; c < d.columns; ++c) dots<kRows, 1>(d, row, c);
}

void int8_dots(const Int8Dots& d) {
  int64_t r = 0;
  for (; r + 2 <= d.rows; r += 2) dot_rows<2>(d, r);
  if (r < d.rows) dot_rows<1>(d, r);
}

}  // namespace attune::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attune {

HWY_EXPORT(int8_dots);

void int8_dots(const Int8Dots& d) { HWY_DYNAMIC_DISPATCH(int8_dots)(d); }

}  // namespace attune
#endif
