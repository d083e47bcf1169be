// Rows of floats rounded to bytes or words, for products of panels of integers. Included once for each instruction set.
#if defined(ATTUNE_PANEL_ROUND_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTUNE_PANEL_ROUND_INL_H
#undef ATTUNE_PANEL_ROUND_INL_H
#else
#define ATTUNE_PANEL_ROUND_INL_H
#endif

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/support/panel_store-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attune::HWY_NAMESPACE {

using Storage = PanelWeights::Storage;
using DI = hn::Rebind<int32_t, DF>;
using VI = hn::Vec<DI>;

// Whole numbers nearest to those of v, which fit, as bytes or words; gives them as 32 bits.
template <class T>
HWY_INLINE VI round_to(VF v, T* to) {
#if HWY_TARGET == HWY_AVX3
  const __m512i values = _mm512_cvtps_epi32(v.raw);
  if constexpr (sizeof(T) == 1) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtsepi32_epi8(values));
  } else {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtsepi32_epi16(values));
  }
  return VI{values};
#else
#if HWY_TARGET == HWY_AVX2
  const VI values{_mm256_cvtps_epi32(v.raw)};  // NearestInt() takes care of what doesn't fit
#else
  const VI values = hn::NearestInt(v);
#endif
  hn::StoreU(hn::DemoteTo(hn::Rebind<T, DF>(), values), hn::Rebind<T, DF>(), to);
  return values;
#endif
}

constexpr float kInt8Most = 127;

// Largest size and sum of squares of some values.
struct Sizes {
  float most;  // infinite or NaN where one of them is
  float squares;
};

HWY_INLINE Sizes sizes_of(const float* x, int64_t whole, VF rest) {
  const DF df;
  const DI di;
  constexpr auto lanes = static_cast<int64_t>(kLanes);
  // The bits of a size order as sizes do, infinity and NaN on top.
  const auto size = [&](VF v) HWY_ATTR { return hn::BitCast(di, hn::Abs(v)); };
  VI largest[2] = {size(rest), hn::Zero(di)};
  VF squares[2] = {hn::Mul(rest, rest), hn::Zero(df)};
  const auto add = [&](size_t j, VF v) HWY_ATTR {
    largest[j] = hn::Max(largest[j], size(v));
    squares[j] = hn::MulAdd(v, v, squares[j]);
  };
  int64_t i = 0;
  for (; i + 2 * lanes <= whole; i += 2 * lanes)
    for (size_t j = 0; j < 2; ++j) add(j, hn::LoadU(df, x + i + static_cast<int64_t>(j) * lanes));
  if (i < whole) add(0, hn::LoadU(df, x + i));
  return {hn::GetLane(hn::BitCast(df, hn::MaxOfLanes(di, hn::Max(largest[0], largest[1])))),
          hn::GetLane(hn::SumOfLanes(df, hn::Add(squares[0], squares[1])))};
}

// What the values of a block are multiplied with before they are rounded.
template <class T>
float rounding_factor(const Sizes& s) {
  if constexpr (sizeof(T) == 1) return kInt8Most / s.most;
  // The bound of the norm is all that is known where squares leave the range of floats.
  const float norm = s.most > 1e-15F && s.most < 1e18F
                         ? std::sqrt(s.squares)
                         : s.most * std::sqrt(static_cast<float>(PanelWeights::kMostActivationBlock));
  return std::min(PanelWeights::kInt16Most / s.most, PanelWeights::kInt16Norm / norm);
}

// One block of a row: gives the scale and, of bytes, the sum of the values. What isn't finite makes the scale NaN.
template <class T>
HWY_INLINE float quantize_block(const float* x, int64_t count, T* to, int32_t* sum) {
  constexpr bool kIsByte = sizeof(T) == 1;
  const DF df;
  const DI di;
  constexpr auto lanes = static_cast<int64_t>(kLanes);
  const int64_t whole = count / lanes * lanes;
  VF rest = hn::Zero(df);
  if (whole < count) {
    HWY_ALIGN float last[kPanel] = {};
    std::copy(x + whole, x + count, last);
    rest = hn::Load(df, last);
  }
  const Sizes sizes = sizes_of(x, whole, rest);
  const float factor = rounding_factor<T>(sizes);
  *sum = 0;
  // Not finite: the scale says so. So small that its inverse is infinite: zero.
  if (!std::isfinite(sizes.most) || !std::isfinite(factor)) {
    std::fill_n(to, count, T{0});
    return std::isfinite(sizes.most) ? 0.0F : std::numeric_limits<float>::quiet_NaN();
  }
  const VF factors = hn::Set(df, factor);
  VI total = hn::Zero(di);
  for (int64_t i = 0; i < whole; i += lanes)
    total = hn::Add(total, round_to(hn::Mul(hn::LoadU(df, x + i), factors), to + i));
  if (whole < count) {
    HWY_ALIGN T last[kPanel];
    total = hn::Add(total, round_to(hn::Mul(rest, factors), last));
    std::copy(last, last + (count - whole), to + whole);
  }
  if constexpr (kIsByte) *sum = hn::GetLane(hn::SumOfLanes(di, total));
  return kIsByte ? sizes.most / kInt8Most : 1.0F / factor;
}

// Block `i` of row `r`, for a product with `w`.
template <class T>
HWY_INLINE void round_block(const PanelWeights& w, const Int8Rows& rows, int64_t r, int64_t i, const float* x) {
  const int64_t block = w.activation_block(), padded = (block + w.row_step() - 1) / w.row_step() * w.row_step();
  const int32_t offset = w.storage() == Storage::kInt8 ? 128 : w.storage() == Storage::kInt4 ? 8 : 0;
  const int64_t count = std::min(block, w.inner() - i * block), inner = w.padded_inner();
  T* const row = reinterpret_cast<T*>(rows.values) + r * inner;
  T* const to = row + i * padded;
  int32_t sum = 0;
  rows.scales[r * rows.blocks + i] = quantize_block(x, count, to, &sum);
  rows.starts[r * rows.blocks + i] = -offset * sum;
  if (count % w.row_step() != 0) std::fill(to + count, std::min(to + padded, row + inner), T{0});
}

// Blocks [first, last) of `count` rows from r on; those of x lie x_stride apart, and begin with block `first`.
template <class T>
void round_blocks(const PanelWeights& w, const Int8Rows& rows, int64_t r, int64_t count, int64_t first, int64_t last,
                  const float* x, int64_t x_stride) {
  for (int64_t end = r + count; r < end; ++r, x += x_stride)
    for (int64_t i = first; i < last; ++i) round_block<T>(w, rows, r, i, x + (i - first) * w.activation_block());
}

}  // namespace attune::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
