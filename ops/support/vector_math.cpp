#include "ops/support/vector_math.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "ops/support/half.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/support/vector_math.cpp"
// clang-format off
#include <hwy/foreach_target.h>
// clang-format on
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace attune {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;
using Vec = hn::Vec<Tag>;

// Applies f to whole vectors; the last one is padded.
template <class F>
HWY_INLINE void apply(const float* in, float* out, size_t n, F f) {
  const Tag d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(d, hn::LoadU(d, in + i)), d, out + i);
  if (i == n) return;
  HWY_ALIGN float rest[hn::MaxLanes(Tag())] = {};
  std::memcpy(rest, in + i, (n - i) * sizeof(float));
  hn::Store(f(d, hn::Load(d, rest)), d, rest);
  std::memcpy(out + i, rest, (n - i) * sizeof(float));
}

// exp(x) of x <= 88.7; NaN stays NaN.
HWY_INLINE Vec exp_of(Tag d, Vec x) {
  // Below -104 the result is 0: clamped, so that -inf gives 0 too.
  const Vec clamped = hn::Max(hn::Min(x, hn::Set(d, 88.8f)), hn::Set(d, -104.0f));
  const Vec e = hn::IfThenElse(hn::Gt(x, hn::Set(d, 88.722835f)), hn::Set(d, std::numeric_limits<float>::infinity()),
                               hn::Exp(d, clamped));
  return hn::IfThenElse(hn::IsNaN(x), x, e);
}

HWY_INLINE Vec sigmoid_of(Tag d, Vec x) {
  const Vec one = hn::Set(d, 1.0f);
  // exp(-|x|) can't overflow: sigmoid(-x) = 1 - sigmoid(x).
  const Vec e = exp_of(d, hn::Neg(hn::Abs(x)));
  const Vec s = hn::Div(hn::IfThenElse(hn::Ge(x, hn::Zero(d)), one, e), hn::Add(one, e));
  return hn::IfThenElse(hn::IsNaN(x), x, s);
}

// A polynomial in x, coefficients from the highest power on.
template <size_t N>
HWY_INLINE Vec polynomial(Tag d, Vec x, const float (&coefficients)[N]) {
  Vec p = hn::Set(d, coefficients[0]);
  for (size_t i = 1; i < N; ++i) p = hn::MulAdd(p, x, hn::Set(d, coefficients[i]));
  return p;
}

// |x| < 0.625: x + x^3 P(x^2), P a weighted least-squares fit (relative error of P 1.5e-7); else
// 1 - 2 / (exp(2|x|) + 1).
HWY_INLINE Vec tanh_of(Tag d, Vec x) {
  constexpr float kSmall[] = {-6.045426606e-03f, 2.096154198e-02f, -5.384331795e-02f, 1.333271931e-01f,
                              -3.333332844e-01f};
  const Vec one = hn::Set(d, 1.0f), two = hn::Set(d, 2.0f);
  const Vec a = hn::Abs(x), z = hn::Mul(x, x);
  const Vec e = exp_of(d, hn::Mul(two, hn::Min(a, hn::Set(d, 20.0f))));
  const Vec large = hn::CopySign(hn::Sub(one, hn::Div(two, hn::Add(e, one))), x);
  const Vec small = hn::MulAdd(hn::Mul(polynomial(d, z, kSmall), z), x, x);
  const Vec t = hn::IfThenElse(hn::Lt(a, hn::Set(d, 0.625f)), small, large);
  return hn::IfThenElse(hn::IsNaN(x), x, t);
}

// |x| < 1: x + x P(x^2); else 1 - exp(-x^2) Q(t) with t = 1 / (1 + |x|/2), for |x| up to 4, where erf is 1 in float.
// P and Q are weighted least-squares fits (relative errors 1.3e-9 and 1.7e-7).
HWY_INLINE Vec erf_of(Tag d, Vec x) {
  constexpr float kSmall[] = {7.853860988e-05f, -8.010193516e-04f, 5.188327673e-03f, -2.685381193e-02f,
                              1.128358515e-01f, -3.761262582e-01f, 1.283791664e-01f};
  constexpr float kLarge[] = {-2.144744405e-01f, 5.937728560e-01f, -1.973200924e-02f,
                              3.736850237e-01f,  2.656235947e-01f, 1.220620593e-03f};
  const Vec one = hn::Set(d, 1.0f);
  const Vec a = hn::Min(hn::Abs(x), hn::Set(d, 4.0f));
  const Vec z = hn::Mul(a, a);
  const Vec small = hn::MulAdd(polynomial(d, z, kSmall), x, x);
  const Vec t = hn::Div(one, hn::MulAdd(a, hn::Set(d, 0.5f), one));
  const Vec complement = hn::Mul(polynomial(d, t, kLarge), exp_of(d, hn::Neg(z)));
  const Vec large = hn::CopySign(hn::Sub(one, complement), x);
  const Vec e = hn::IfThenElse(hn::Lt(a, one), small, large);
  return hn::IfThenElse(hn::IsNaN(x), x, e);
}

HWY_INLINE Vec log_of(Tag d, Vec x) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Vec zero = hn::Zero(d);
  Vec y = hn::Log(d, x);
  y = hn::IfThenElse(hn::Eq(x, zero), hn::Set(d, -kInfinity), y);
  y = hn::IfThenElse(hn::Eq(x, hn::Set(d, kInfinity)), x, y);
  y = hn::IfThenElse(hn::Lt(x, zero), hn::Set(d, std::numeric_limits<float>::quiet_NaN()), y);
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

HWY_ATTR void Exp(const float* in, float* out, size_t n) {
  apply(in, out, n, [](Tag d, Vec x) HWY_ATTR { return exp_of(d, x); });
}
HWY_ATTR void Log(const float* in, float* out, size_t n) {
  apply(in, out, n, [](Tag d, Vec x) HWY_ATTR { return log_of(d, x); });
}
HWY_ATTR void Tanh(const float* in, float* out, size_t n) {
  apply(in, out, n, [](Tag d, Vec x) HWY_ATTR { return tanh_of(d, x); });
}
HWY_ATTR void Erf(const float* in, float* out, size_t n) {
  apply(in, out, n, [](Tag d, Vec x) HWY_ATTR { return erf_of(d, x); });
}
HWY_ATTR void Sigmoid(const float* in, float* out, size_t n) {
  apply(in, out, n, [](Tag d, Vec x) HWY_ATTR { return sigmoid_of(d, x); });
}
HWY_ATTR void Swish(const float* in, float* out, size_t n, float alpha) {
  apply(in, out, n,
        [alpha](Tag d, Vec x) HWY_ATTR { return hn::Mul(x, sigmoid_of(d, hn::Mul(x, hn::Set(d, alpha)))); });
}
HWY_ATTR void Gelu(const float* in, float* out, size_t n) {
  apply(in, out, n, [](Tag d, Vec x) HWY_ATTR {
    const Vec half = hn::Set(d, 0.5f);
    const Vec e = erf_of(d, hn::Mul(x, hn::Set(d, 0.70710678f)));
    return hn::Mul(hn::Mul(x, half), hn::Add(e, hn::Set(d, 1.0f)));
  });
}
HWY_ATTR void GeluTanh(const float* in, float* out, size_t n) {
  apply(in, out, n, [](Tag d, Vec x) HWY_ATTR {
    const Vec cubic = hn::MulAdd(hn::Mul(hn::Mul(x, x), hn::Set(d, 0.044715f)), x, x);
    const Vec t = tanh_of(d, hn::Mul(cubic, hn::Set(d, 0.79788456f)));
    return hn::Mul(hn::Mul(x, hn::Set(d, 0.5f)), hn::Add(t, hn::Set(d, 1.0f)));
  });
}

// The vector at x[i], or x[0] everywhere.
template <size_t kStep>
HWY_INLINE Vec load(Tag d, const float* x, size_t i) {
  return kStep ? hn::LoadU(d, x + i) : hn::Set(d, x[0]);
}

// One vector function `f` and its scalar form `g` over two operands of fixed steps.
template <size_t kA, size_t kB, class F, class G>
HWY_INLINE void binary_steps(const float* a, const float* b, float* out, size_t n, F f, G g) {
  const Tag d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(load<kA>(d, a, i), load<kB>(d, b, i)), d, out + i);
  for (; i < n; ++i) out[i] = g(a[i * kA], b[i * kB]);
}
template <class F, class G>
HWY_INLINE void binary(const float* a, size_t a_step, const float* b, size_t b_step, float* out, size_t n, F f, G g) {
  if (a_step && b_step) return binary_steps<1, 1>(a, b, out, n, f, g);
  if (a_step) return binary_steps<1, 0>(a, b, out, n, f, g);
  if (b_step) return binary_steps<0, 1>(a, b, out, n, f, g);
  binary_steps<0, 0>(a, b, out, n, f, g);
}

HWY_ATTR void Add(const float* a, size_t a_step, const float* b, size_t b_step, float* out, size_t n) {
  binary(
      a, a_step, b, b_step, out, n, [](Vec x, Vec y) HWY_ATTR { return hn::Add(x, y); },
      [](float x, float y) HWY_ATTR { return x + y; });
}
HWY_ATTR void Subtract(const float* a, size_t a_step, const float* b, size_t b_step, float* out, size_t n) {
  binary(
      a, a_step, b, b_step, out, n, [](Vec x, Vec y) HWY_ATTR { return hn::Sub(x, y); },
      [](float x, float y) HWY_ATTR { return x - y; });
}
HWY_ATTR void Multiply(const float* a, size_t a_step, const float* b, size_t b_step, float* out, size_t n) {
  binary(
      a, a_step, b, b_step, out, n, [](Vec x, Vec y) HWY_ATTR { return hn::Mul(x, y); },
      [](float x, float y) HWY_ATTR { return x * y; });
}
HWY_ATTR void Divide(const float* a, size_t a_step, const float* b, size_t b_step, float* out, size_t n) {
  binary(
      a, a_step, b, b_step, out, n, [](Vec x, Vec y) HWY_ATTR { return hn::Div(x, y); },
      [](float x, float y) HWY_ATTR { return x / y; });
}

template <size_t kA, size_t kB>
HWY_INLINE void select_steps(const bool* condition, const float* a, const float* b, float* out, size_t n) {
  const Tag d;
  const hn::Rebind<uint8_t, Tag> bytes;
  const hn::RebindToUnsigned<Tag> words;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto flags = hn::PromoteTo(words, hn::LoadU(bytes, reinterpret_cast<const uint8_t*>(condition) + i));
    const auto mask = hn::RebindMask(d, hn::Ne(flags, hn::Zero(words)));
    hn::StoreU(hn::IfThenElse(mask, load<kA>(d, a, i), load<kB>(d, b, i)), d, out + i);
  }
  for (; i < n; ++i) out[i] = condition[i] ? a[i * kA] : b[i * kB];
}
HWY_ATTR void Select(const bool* condition, const float* a, size_t a_step, const float* b, size_t b_step, float* out,
                     size_t n) {
  if (a_step && b_step) return select_steps<1, 1>(condition, a, b, out, n);
  if (a_step) return select_steps<1, 0>(condition, a, b, out, n);
  if (b_step) return select_steps<0, 1>(condition, a, b, out, n);
  select_steps<0, 0>(condition, a, b, out, n);
}

// With F16C (AVX2 and up) the conversions are single instructions; the plain loops vectorise for bfloat16.
HWY_ATTR void FromFloat16(const Float16* in, float* out, size_t n) {
  size_t i = 0;
#if HWY_TARGET <= HWY_AVX2
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i))));
#endif
  for (; i < n; ++i) out[i] = static_cast<float>(in[i]);
}
HWY_ATTR void ToFloat16(const float* in, Float16* out, size_t n) {
  size_t i = 0;
#if HWY_TARGET <= HWY_AVX2
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#endif
  for (; i < n; ++i) out[i] = Float16(in[i]);
}
HWY_ATTR void FromBFloat16(const BFloat16* in, float* out, size_t n) {
  for (size_t i = 0; i < n; ++i) out[i] = static_cast<float>(in[i]);
}
HWY_ATTR void ToBFloat16(const float* in, BFloat16* out, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<uint32_t>(in[i]);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const uint32_t quiet = (bits >> 16) | 0x40u;
    out[i].bits = static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace attune
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attune {

HWY_EXPORT(Exp);
HWY_EXPORT(Log);
HWY_EXPORT(Tanh);
HWY_EXPORT(Erf);
HWY_EXPORT(Sigmoid);
HWY_EXPORT(Swish);
HWY_EXPORT(Gelu);
HWY_EXPORT(GeluTanh);
HWY_EXPORT(Add);
HWY_EXPORT(Subtract);
HWY_EXPORT(Multiply);
HWY_EXPORT(Divide);
HWY_EXPORT(Select);
HWY_EXPORT(FromFloat16);
HWY_EXPORT(ToFloat16);
HWY_EXPORT(FromBFloat16);
HWY_EXPORT(ToBFloat16);

namespace vector_math {

void exp(const float* in, float* out, size_t n) { HWY_DYNAMIC_DISPATCH(Exp)(in, out, n); }
void log(const float* in, float* out, size_t n) { HWY_DYNAMIC_DISPATCH(Log)(in, out, n); }
void tanh(const float* in, float* out, size_t n) { HWY_DYNAMIC_DISPATCH(Tanh)(in, out, n); }
void erf(const float* in, float* out, size_t n) { HWY_DYNAMIC_DISPATCH(Erf)(in, out, n); }
void sigmoid(const float* in, float* out, size_t n) { HWY_DYNAMIC_DISPATCH(Sigmoid)(in, out, n); }
void silu(const float* in, float* out, size_t n) { HWY_DYNAMIC_DISPATCH(Swish)(in, out, n, 1.0f); }
void swish(const float* in, float* out, size_t n, float alpha) { HWY_DYNAMIC_DISPATCH(Swish)(in, out, n, alpha); }
void gelu(const float* in, float* out, size_t n) { HWY_DYNAMIC_DISPATCH(Gelu)(in, out, n); }
void gelu_tanh(const float* in, float* out, size_t n) { HWY_DYNAMIC_DISPATCH(GeluTanh)(in, out, n); }

void add(const float* a, size_t a_step, const float* b, size_t b_step, float* out, size_t n) {
  HWY_DYNAMIC_DISPATCH(Add)(a, a_step, b, b_step, out, n);
}
void subtract(const float* a, size_t a_step, const float* b, size_t b_step, float* out, size_t n) {
  HWY_DYNAMIC_DISPATCH(Subtract)(a, a_step, b, b_step, out, n);
}
void multiply(const float* a, size_t a_step, const float* b, size_t b_step, float* out, size_t n) {
  HWY_DYNAMIC_DISPATCH(Multiply)(a, a_step, b, b_step, out, n);
}
void divide(const float* a, size_t a_step, const float* b, size_t b_step, float* out, size_t n) {
  HWY_DYNAMIC_DISPATCH(Divide)(a, a_step, b, b_step, out, n);
}
void select(const bool* condition, const float* a, size_t a_step, const float* b, size_t b_step, float* out, size_t n) {
  HWY_DYNAMIC_DISPATCH(Select)(condition, a, a_step, b, b_step, out, n);
}

}  // namespace vector_math

void convert(const Float16* in, float* out, size_t n) { HWY_DYNAMIC_DISPATCH(FromFloat16)(in, out, n); }
void convert(const BFloat16* in, float* out, size_t n) { HWY_DYNAMIC_DISPATCH(FromBFloat16)(in, out, n); }
void convert(const float* in, Float16* out, size_t n) { HWY_DYNAMIC_DISPATCH(ToFloat16)(in, out, n); }
void convert(const float* in, BFloat16* out, size_t n) { HWY_DYNAMIC_DISPATCH(ToBFloat16)(in, out, n); }

}  // namespace attune
#endif  // HWY_ONCE
