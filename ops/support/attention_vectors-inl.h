// Vectors of floats for the attention kernels: loads of any narrow type, parts of vectors, exp and tanh.
// Included once for each instruction set.
#if defined(ATTUNE_ATTENTION_VECTORS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTUNE_ATTENTION_VECTORS_INL_H
#undef ATTUNE_ATTENTION_VECTORS_INL_H
#else
#define ATTUNE_ATTENTION_VECTORS_INL_H
#endif

#include "graph/data_type.h"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "ops/support/load_half-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attune {
namespace attention_vectors {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;
using Vector = hn::Vec<Floats>;
using Brains = hn::Rebind<hwy::bfloat16_t, Floats>;

HWY_INLINE Vector load(const float* p) { return hn::LoadU(Floats(), p); }
HWY_INLINE Vector load(const Float16* p) { return attune::HWY_NAMESPACE::load_half(Floats(), p); }
HWY_INLINE Vector load(const BFloat16* p) {
  return hn::PromoteTo(Floats(), hn::LoadU(Brains(), reinterpret_cast<const hwy::bfloat16_t*>(p)));
}

// The first `n` numbers, less than a vector; zeros after them.
template <class T>
HWY_INLINE Vector load_first(const T* p, size_t n) {
#if !HWY_MEM_OPS_MIGHT_FAULT
  if constexpr (std::is_same_v<T, float>) return hn::MaskedLoad(hn::FirstN(Floats(), n), Floats(), p);
#endif
  HWY_ALIGN T numbers[HWY_MAX_BYTES / sizeof(float)] = {};
  for (size_t i = 0; i < n; ++i) numbers[i] = p[i];
  return load(numbers);
}

HWY_INLINE void store_first(Vector v, float* p, size_t n) {
  HWY_ALIGN float numbers[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(v, Floats(), numbers);
  for (size_t i = 0; i < n; ++i) p[i] = numbers[i];
}

HWY_INLINE float sum_of(Vector v) { return hn::GetLane(hn::SumOfLanes(Floats(), v)); }

#if HWY_TARGET == HWY_AVX3
// 2^(i / 32)
alignas(64) constexpr float kPowers[32] = {
    1.0F,        1.02189715F, 1.04427378F, 1.0671404F,  1.09050773F, 1.11438674F, 1.13878863F, 1.16372486F,
    1.18920712F, 1.21524736F, 1.24185781F, 1.26905096F, 1.29683955F, 1.32523664F, 1.35425555F, 1.38390988F,
    1.41421356F, 1.44518081F, 1.47682615F, 1.50916443F, 1.54221083F, 1.57598085F, 1.61049033F, 1.64575548F,
    1.68179283F, 1.7186193F,  1.75625216F, 1.79470908F, 1.83400809F, 1.87416763F, 1.91520656F, 1.95714412F,
};
#endif

// exp(x) for x <= 8, 0 below -87.3 (or -86.6), NaN for NaN; relative error 1.5e-7 + 5.8e-8 |x|, of which the second
// part is what half a unit in the last place of x makes. Where registers have 16 lanes, with x in octaves it is the
// power of two at the nearest multiple of 1/32, from a table, times 1 + r (a + b r), fitted for the least error
// (5.3e-8) on |r| <= 1/64: four multiplications, which compete with those of products. Elsewhere with n = round(x / ln
// 2) and r = x / ln 2 - n it is 2^n 2^r; the polynomial is 1 + r (...), fitted for the least relative error (9e-8) on
// |r| <= 1/2.
HWY_INLINE Vector exp_of_score(Vector x) {
  const Floats d;
  const Vector per_octave = hn::Set(d, 1.44269504F);
#if HWY_TARGET == HWY_AVX3
  const Vector octaves = hn::Mul(x, per_octave);
  // In this sum the last bits are octaves in units of 1/32.
  const Vector shift = hn::Set(d, 12582912.0F / 32);
  const Vector shifted = hn::Add(octaves, shift);
  const Vector r = hn::Sub(octaves, hn::Sub(shifted, shift));
  const __m512i steps = _mm512_castps_si512(shifted.raw);
  const __m512 fraction = _mm512_permutex2var_ps(_mm512_load_ps(kPowers), steps, _mm512_load_ps(kPowers + 16));
  const __m512i whole = _mm512_slli_epi32(_mm512_srli_epi32(steps, 5), 23);
  const __m512 power = _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(fraction), whole));
  const Vector rise = hn::Mul(r, hn::MulAdd(r, hn::Set(d, 0.24022651F), hn::Set(d, 0.69315734F)));
  const __mmask16 counts = _mm512_cmp_ps_mask(octaves.raw, _mm512_set1_ps(-125.0F), _CMP_NLT_UQ);
  return Vector{_mm512_maskz_fmadd_ps(counts, power, rise.raw, power)};
#else
  const hn::RebindToUnsigned<Floats> bits;
  // In this sum the last bits are n + 127, the exponent of 2^n.
  const Vector shift = hn::Set(d, 12582912.0F + 127.0F);
  const Vector shifted = hn::MulAdd(x, per_octave, shift);
  const Vector r = hn::MulSub(x, per_octave, hn::Sub(shifted, shift));
  Vector p = hn::MulAdd(r, hn::Set(d, 0.00132647203F), hn::Set(d, 0.00967151392F));
  p = hn::MulAdd(p, r, hn::Set(d, 0.0555073395F));
  p = hn::MulAdd(p, r, hn::Set(d, 0.240222424F));
  p = hn::MulAdd(p, r, hn::Set(d, 0.693147004F));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0F));
  const Vector power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(bits, shifted)));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.3F)), hn::Mul(p, power));
#endif
}
// x[i] = exp(x[i] - from); gives the sums by lanes. n is a multiple of a vector.
HWY_INLINE Vector exponentials_of(float* x, int64_t n, float from) {
  constexpr auto kStep = static_cast<int64_t>(hn::MaxLanes(Floats()));
  const Vector f = hn::Set(Floats(), from);
  Vector sum = hn::Zero(Floats());
  for (int64_t i = 0; i < n; i += kStep) {
    const Vector e = exp_of_score(hn::Sub(load(x + i), f));
    hn::StoreU(e, Floats(), x + i);
    sum = hn::Add(sum, e);
  }
  return sum;
}

// The largest of n numbers, one vector or more of them. With NaN among them: any.
HWY_INLINE float largest_of(const float* x, int64_t n) {
  constexpr auto kStep = static_cast<int64_t>(hn::MaxLanes(Floats()));
  Vector m = load(x);
  for (int64_t i = kStep; i < n; i += kStep) m = hn::Max(m, load(x + i));
  return hn::GetLane(hn::MaxOfLanes(Floats(), m));
}

// NaN for NaN, which Highway's function takes for a small number.
HWY_INLINE Vector tanh_of(Vector x) { return hn::IfThenElse(hn::IsNaN(x), x, hn::Tanh(Floats(), x)); }

}  // namespace HWY_NAMESPACE
}  // namespace attention_vectors
}  // namespace attune
HWY_AFTER_NAMESPACE();

#endif  // include guard for each instruction set
