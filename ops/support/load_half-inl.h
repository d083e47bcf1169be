// float16 numbers as a vector of floats. Included once for each instruction set.
#if defined(ATTUNE_LOAD_HALF_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTUNE_LOAD_HALF_INL_H
#undef ATTUNE_LOAD_HALF_INL_H
#else
#define ATTUNE_LOAD_HALF_INL_H
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace attune::HWY_NAMESPACE {

// As many float16 numbers from `p` (any alignment) as `d` has lanes.
template <class D>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> load_half(D d, const void* p) {
  namespace hn = hwy::HWY_NAMESPACE;
#if HWY_TARGET <= HWY_AVX2
  const hn::Rebind<hwy::float16_t, D> d16;
  return hn::PromoteTo(d, hn::LoadU(d16, static_cast<const hwy::float16_t*>(p)));
#else
  // Highway 1.0's emulation makes infinities and NaN finite. Scaling the bits serves subnormals too.
  const hn::Rebind<uint16_t, D> d16;
  const hn::Rebind<int32_t, D> d32;
  const auto bits = hn::PromoteTo(d32, hn::LoadU(d16, static_cast<const uint16_t*>(p)));
  const auto magnitude = hn::And(bits, hn::Set(d32, 0x7fff));
  const auto finite = hn::Mul(hn::BitCast(d, hn::ShiftLeft<13>(magnitude)), hn::Set(d, 0x1p112F));
  const auto special = hn::Gt(magnitude, hn::Set(d32, 0x7bff));
  const auto infinite = hn::BitCast(d, hn::IfThenElseZero(special, hn::Set(d32, 0x7f800000)));
  const auto sign = hn::BitCast(d, hn::ShiftLeft<16>(hn::And(bits, hn::Set(d32, 0x8000))));
  return hn::Or(hn::Or(finite, infinite), sign);
#endif
}

}  // namespace attune::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
