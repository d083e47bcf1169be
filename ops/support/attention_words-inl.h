// Rows rounded to words, and their products with a packed panel, exact in 32 bits. Included once for each instruction
// set.
#if defined(ATTUNE_ATTENTION_WORDS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTUNE_ATTENTION_WORDS_INL_H
#undef ATTUNE_ATTENTION_WORDS_INL_H
#else
#define ATTUNE_ATTENTION_WORDS_INL_H
#endif

#include <cmath>
#include <cstring>
#include <limits>

#include "ops/support/attention_blocks.h"
#include "ops/support/attention_multiply-inl.h"
#include "ops/support/attention_vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attune {
namespace blocked {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using namespace attention_vectors::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace)

using Words = hn::Rebind<int16_t, Floats>;
using Integers = hn::RebindToSigned<Floats>;
using IntegerVector = hn::Vec<Integers>;

// Rows of a product whose accumulators fit into the registers.
constexpr int kWordRows = kVectors <= 2 ? 8 : kVectors <= 4 ? 3 : 1;

constexpr bool kHasWords = HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3;

HWY_INLINE IntegerVector load_lanes(const float* p) {
  return hn::LoadU(Integers(), reinterpret_cast<const int32_t*>(p));
}

// Bits of a size: they order as sizes do, infinity and NaN on top.
HWY_INLINE IntegerVector size_bits(Vector v) { return hn::BitCast(Integers(), hn::Abs(v)); }

HWY_INLINE float largest_size(IntegerVector bits) {
  return hn::GetLane(hn::BitCast(Floats(), hn::MaxOfLanes(Integers(), bits)));
}

// The whole numbers nearest to v, which fit in words.
HWY_INLINE void store_words(Vector v, int16_t* to) {
#if HWY_TARGET == HWY_AVX3
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(v.raw)));
#else
  hn::StoreU(hn::DemoteTo(Words(), hn::NearestInt(v)), Words(), to);
#endif
}

// Lanes of a word of each of two rows, the first in the lower half.
HWY_INLINE void store_pairs(const int16_t* first, const int16_t* second, float* to) {
  const Integers d;
  const auto low = hn::And(hn::PromoteTo(d, hn::LoadU(Words(), first)), hn::Set(d, 0xffff));
  const auto high = hn::ShiftLeft<16>(hn::PromoteTo(d, hn::LoadU(Words(), second)));
  hn::StoreU(hn::Or(low, high), d, reinterpret_cast<int32_t*>(to));
}

// Rounds a row of `n` numbers to words of at most `most`, an even number of them, the largest to `most`; gives the
// scale. NaN and zeros for a row that isn't finite. `to` may be x.
template <class T>
HWY_INLINE float round_row(const T* x, int64_t n, float most, int16_t* to) {
  constexpr auto kStep = static_cast<int64_t>(kLanes);
  const int64_t whole = n / kStep * kStep;
  const Vector rest = whole < n ? load_first(x + whole, static_cast<size_t>(n - whole)) : hn::Zero(Floats());
  IntegerVector bits = size_bits(rest);
  for (int64_t i = 0; i < whole; i += kStep) bits = hn::Max(bits, size_bits(load(x + i)));
  const float largest = largest_size(bits), factor = most / largest;
  if (!std::isfinite(largest) || !std::isfinite(factor)) {
    std::fill_n(to, 2 * pairs(n), int16_t{0});
    return std::isfinite(largest) ? 0.0F : std::numeric_limits<float>::quiet_NaN();
  }
  const Vector f = hn::Set(Floats(), factor);
  for (int64_t i = 0; i < whole; i += kStep) store_words(hn::Mul(load(x + i), f), to + i);
  if (whole < n) {
    HWY_ALIGN int16_t words[kLanes];
    store_words(hn::Mul(rest, f), words);
    std::copy_n(words, std::min(2 * pairs(n - whole), kStep), to + whole);
  }
  return largest / most;
}

// sum + the products of a lane's two words.
template <AttentionNumbers kNumbers>
HWY_INLINE IntegerVector add_products(IntegerVector sum, IntegerVector a, IntegerVector b) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (kNumbers == AttentionNumbers::kWords)
    return hn::Add(sum, IntegerVector{_mm512_madd_epi16(a.raw, b.raw)});
  asm("vpdpwssd %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
  return sum;
#elif HWY_TARGET == HWY_AVX2
  if constexpr (kNumbers == AttentionNumbers::kWords)
    return hn::Add(sum, IntegerVector{_mm256_madd_epi16(a.raw, b.raw)});
  asm("%{vex%} vpdpwssd %2, %1, %0" : "+x"(sum.raw) : "x"(a.raw), "x"(b.raw));
  return sum;
#else
  const auto low = [](IntegerVector v) HWY_ATTR { return hn::ShiftRight<16>(hn::ShiftLeft<16>(v)); };
  sum = hn::Add(sum, hn::Mul(low(a), low(b)));
  return hn::Add(sum, hn::Mul(hn::ShiftRight<16>(a), hn::ShiftRight<16>(b)));
#endif
}

// Where a product goes, and what it is multiplied with: scales of rows, and of columns if scores are stored.
struct WordResult {
  PanelResult to;
  const float *row_scales, *column_scales = nullptr;
};

// multiply_rows() for words: c (+)= sum a b times scales. `inner` counts lanes.
template <int R, Product what, AttentionNumbers kNumbers>
HWY_INLINE void multiply_word_rows(const float* a, int64_t a_stride, int64_t inner, Panel panel,
                                   const WordResult& result) {
  const Floats d;
  IntegerVector sums[R][kVectors];
  for (int r = 0; r < R; ++r)
    for (size_t v = 0; v < kVectors; ++v) sums[r][v] = hn::Zero(Integers());
  for (int64_t k = 0; k < inner; ++k, panel.data += panel.stride) {
    IntegerVector factors[R];
    for (int r = 0; r < R; ++r) {
      int32_t two;
      std::memcpy(&two, a + r * a_stride + k, sizeof two);
      factors[r] = hn::Set(Integers(), two);
    }
    for (size_t v = 0; v < kVectors; ++v) {
      const IntegerVector b = load_lanes(panel.data + v * kLanes);
      for (int r = 0; r < R; ++r) sums[r][v] = add_products<kNumbers>(sums[r][v], b, factors[r]);
    }
  }
  for (int r = 0; r < R; ++r) {
    const Vector scale = hn::Set(d, result.row_scales[r]);
    float* const c = result.to.c + r * result.to.c_stride;
    if constexpr (what == Product::kAdd) {
      for (size_t v = 0; v < kVectors; ++v)
        hn::StoreU(hn::MulAdd(hn::ConvertTo(d, sums[r][v]), scale, load(c + v * kLanes)), d, c + v * kLanes);
    } else {
      Vector largest = load(result.to.largest + r * kPanel);
      for (size_t v = 0; v < kVectors; ++v) {
        const Vector scales = hn::Mul(scale, load(result.column_scales + v * kLanes));
        const Vector score = hn::Mul(hn::ConvertTo(d, sums[r][v]), scales);
        hn::StoreU(score, d, c + v * kLanes);
        largest = hn::Max(largest, score);
      }
      hn::StoreU(largest, d, result.to.largest + r * kPanel);
    }
  }
}

template <int R, Product what, AttentionNumbers kNumbers>
HWY_INLINE int64_t multiply_word_groups(const float* a, int64_t a_stride, int64_t rows, int64_t inner, Panel panel,
                                        const WordResult& result, int64_t r) {
  const PanelResult& to = result.to;
  for (; r + R <= rows; r += R)
    multiply_word_rows<R, what, kNumbers>(
        a + r * a_stride, a_stride, inner, panel,
        {{to.c + r * to.c_stride, to.c_stride, what == Product::kLargest ? to.largest + r * kPanel : nullptr},
         result.row_scales + r,
         result.column_scales});
  return r;
}

template <Product what, AttentionNumbers kNumbers>
void multiply_words(const float* a, int64_t a_stride, int64_t rows, int64_t inner, Panel panel,
                    const WordResult& result) {
  int64_t r = multiply_word_groups<kWordRows, what, kNumbers>(a, a_stride, rows, inner, panel, result, 0);
  if constexpr (kWordRows > 4) r = multiply_word_groups<4, what, kNumbers>(a, a_stride, rows, inner, panel, result, r);
  if constexpr (kWordRows > 2) r = multiply_word_groups<2, what, kNumbers>(a, a_stride, rows, inner, panel, result, r);
  multiply_word_groups<1, what, kNumbers>(a, a_stride, rows, inner, panel, result, r);
}

}  // namespace HWY_NAMESPACE
}  // namespace blocked
}  // namespace attune
HWY_AFTER_NAMESPACE();

#endif  // include guard for each instruction set
