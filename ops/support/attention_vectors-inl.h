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

constexpr float kPerOctave = 1.44269504F;  // 1 / ln 2

#if HWY_TARGET == HWY_AVX3
// 2^(i / 32), times the factor that the last step of exp2_of_score() leaves.
alignas(64) constexpr float kPowers[32] = {
    0.240224749F, 0.245484993F, 0.250860423F, 0.256353527F, 0.261966944F, 0.267703295F, 0.273565233F, 0.279555529F,
    0.285676986F, 0.291932493F, 0.298325002F, 0.304857463F, 0.311532974F, 0.318354636F, 0.325325698F, 0.332449406F,
    0.3397291F,   0.347168207F, 0.354770213F, 0.362538666F, 0.370477229F, 0.3785896F,   0.386879653F, 0.395351201F,
    0.404008269F, 0.41285491F,  0.421895236F, 0.431133538F, 0.440574139F, 0.450221449F, 0.460080028F, 0.470154464F,
};

// 2^x, infinite or 0 where that is its nearest float, NaN for NaN; relative error 2.5e-7. It is 2^n 2^r where n is the
// nearest multiple of 1/32. 2^n comes from a table; 2^r on |r| <= 1/64 is fitted for the least error (5.3e-8) as a
// multiple of (r + a)^2 + b. So two instructions compete with the multiplications of products, and none compares.
HWY_INLINE Vector exp2_of_score(Vector x) {
  const Floats d;
  // In a sum with it the last bits are octaves in units of 1/32.
  const Vector shift = hn::Set(d, 12582912.0F / 32);
  const Vector shifted = hn::Add(x, shift);
  const Vector n = hn::Sub(shifted, shift);
  const Vector power{
      _mm512_permutex2var_ps(_mm512_load_ps(kPowers), _mm512_castps_si512(shifted.raw), _mm512_load_ps(kPowers + 16))};
  const Vector base = hn::Add(hn::Sub(x, n), hn::Set(d, 1.4427267F));
  const Vector result = hn::Mul(power, hn::MulAdd(base, base, hn::Set(d, 2.08130789F)));
  return Vector{_mm512_scalef_ps(result.raw, n.raw)};
}
// exp(x): relative error 5.8e-8 |x| more, which half a unit in the last place of x makes.
HWY_INLINE Vector exp_of_score(Vector x) {
  // Small numbers' last places are many octaves. NaN, the second, stays.
  const Vector least = hn::Set(Floats(), -200.0F);
  return exp2_of_score(hn::Max(least, hn::Mul(x, hn::Set(Floats(), kPerOctave))));
}
#else
// In a sum with it the last bits are octaves + 127, the exponent of their power of two.
constexpr float kExponentShift = 12582912.0F + 127.0F;

// 2^(n + r), where `shifted` is kExponentShift + n; 0 below 2^-126, NaN for NaN. The polynomial is 1 + r (...), fitted
// for the least relative error (9e-8) on |r| <= 1/2.
HWY_INLINE Vector power_of_two(Vector shifted, Vector r) {
  const Floats d;
  const hn::RebindToUnsigned<Floats> bits;
  Vector p = hn::MulAdd(r, hn::Set(d, 0.00132647203F), hn::Set(d, 0.00967151392F));
  p = hn::MulAdd(p, r, hn::Set(d, 0.0555073395F));
  p = hn::MulAdd(p, r, hn::Set(d, 0.240222424F));
  p = hn::MulAdd(p, r, hn::Set(d, 0.693147004F));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0F));
  const Vector power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(bits, shifted)));
  return hn::IfThenZeroElse(hn::Lt(shifted, hn::Set(d, kExponentShift - 126.0F)), hn::Mul(p, power));
}
// 2^x for x < 128, 0 below -126 (or -125.5) and NaN for NaN; relative error 1.5e-7.
HWY_INLINE Vector exp2_of_score(Vector x) {
  const Vector shift = hn::Set(Floats(), kExponentShift), shifted = hn::Add(x, shift);
  return power_of_two(shifted, hn::Sub(x, hn::Sub(shifted, shift)));
}
// exp(x): relative error 5.8e-8 |x| more, which half a unit in the last place of x makes.
HWY_INLINE Vector exp_of_score(Vector x) {
  const Vector shift = hn::Set(Floats(), kExponentShift), per_octave = hn::Set(Floats(), kPerOctave);
  const Vector shifted = hn::MulAdd(x, per_octave, shift);
  return power_of_two(shifted, hn::MulSub(x, per_octave, hn::Sub(shifted, shift)));
}
#endif

// x[i] = exp(x[i] - from), or 2^(...); gives the sums by lanes. n is a multiple of a vector.
template <bool kOctaves>
HWY_INLINE Vector exponentials_of(float* x, int64_t n, float from) {
  constexpr auto kStep = static_cast<int64_t>(hn::MaxLanes(Floats()));
  const Vector f = hn::Set(Floats(), from);
  Vector sum = hn::Zero(Floats());
  for (int64_t i = 0; i < n; i += kStep) {
    const Vector power = hn::Sub(load(x + i), f), e = kOctaves ? exp2_of_score(power) : exp_of_score(power);
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
