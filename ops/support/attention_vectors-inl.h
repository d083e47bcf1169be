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
#include "ops/support/exponential-inl.h"
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

// exp(x) for x <= 0; see exp_below().
HWY_INLINE Vector exp_of_negative(Vector x) { return attune::HWY_NAMESPACE::exp_below(Floats(), x); }
// NaN for NaN, which Highway's function takes for a small number.
HWY_INLINE Vector tanh_of(Vector x) { return hn::IfThenElse(hn::IsNaN(x), x, hn::Tanh(Floats(), x)); }

}  // namespace HWY_NAMESPACE
}  // namespace attention_vectors
}  // namespace attune
HWY_AFTER_NAMESPACE();

#endif  // include guard for each instruction set
