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

// exp(x) for x <= 8, 0 below -87.3, NaN for NaN; relative error 1.5e-7 + 1.4e-8 |x|, of which the second part is less
// than what half a unit in the last place of x makes. With n = round(x / ln 2) and r = x / ln 2 - n it is 2^n 2^r; the
// polynomial is 1 + r (...), fitted for the least relative error (9e-8) on |r| <= 1/2.
HWY_INLINE Vector exp_of_score(Vector x) {
  const Floats d;
  const hn::RebindToUnsigned<Floats> bits;
  const Vector per_octave = hn::Set(d, 1.44269504F);
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
}
// NaN for NaN, which Highway's function takes for a small number.
HWY_INLINE Vector tanh_of(Vector x) { return hn::IfThenElse(hn::IsNaN(x), x, hn::Tanh(Floats(), x)); }

}  // namespace HWY_NAMESPACE
}  // namespace attention_vectors
}  // namespace attune
HWY_AFTER_NAMESPACE();

#endif  // include guard for each instruction set
