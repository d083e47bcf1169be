// The exponential, in fewer instructions than Highway's. Included once for each instruction set.
#if defined(ATTUNE_EXPONENTIAL_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTUNE_EXPONENTIAL_INL_H
#undef ATTUNE_EXPONENTIAL_INL_H
#else
#define ATTUNE_EXPONENTIAL_INL_H
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace attune::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// exp(x) for x <= 88, within 1.5 units in the last place; 0 below -87.3, where the result would be denormal; NaN for
// NaN. With n = round(x / ln 2) and r = x - n ln 2 it is 2^n exp(r); the polynomial is 1 + r + r^2 (...), fitted for
// the least relative error (4e-9) on |r| <= ln 2 / 2.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_below(D d, V x) {
  const hn::RebindToUnsigned<D> bits;
  // In this sum the last bits are n + 127, the exponent of 2^n.
  const V shift = hn::Set(d, 12582912.0F + 127.0F);
  const V shifted = hn::MulAdd(x, hn::Set(d, 1.44269504F), shift);
  const V n = hn::Sub(shifted, shift);
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693145752F), x);
  r = hn::NegMulAdd(n, hn::Set(d, 1.42860677e-6F), r);
  V p = hn::MulAdd(r, hn::Set(d, 0.00138146106F), hn::Set(d, 0.00836871099F));
  p = hn::MulAdd(p, r, hn::Set(d, 0.0416683890F));
  p = hn::MulAdd(p, r, hn::Set(d, 0.166665211F));
  p = hn::MulAdd(p, r, hn::Set(d, 0.499999940F));
  p = hn::MulAdd(p, hn::Mul(r, r), hn::Add(r, hn::Set(d, 1.0F)));
  const V power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(bits, shifted)));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.3F)), hn::Mul(p, power));
}

}  // namespace attune::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard for each instruction set
