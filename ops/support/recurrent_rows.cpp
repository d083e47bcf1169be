#include "ops/support/recurrent_rows.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/support/recurrent_rows.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h must come before highway.h.
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace attune::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// 1 / (1 + exp(-x)) and tanh(x), within 2e-7; NaN stays NaN. Beyond 88 exp leaves float's range.
HWY_INLINE V sigmoid(V x) {
  const D d;
  const V one = hn::Set(d, 1.0F), e = hn::Exp(d, hn::Min(hn::Neg(x), hn::Set(d, 88.0F)));
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Div(one, hn::Add(one, e)));
}
HWY_INLINE V tanh(V x) { return hn::Sub(hn::Mul(hn::Set(D(), 2.0F), sigmoid(hn::Add(x, x))), hn::Set(D(), 1.0F)); }

// A whole vector, or the first elements of one.
struct Whole {
  HWY_INLINE V load(const float* from) const { return hn::LoadU(D(), from); }
  HWY_INLINE void store(V v, float* to) const { hn::StoreU(v, D(), to); }
};
struct Part {
  size_t bytes;
  HWY_INLINE V load(const float* from) const {
    HWY_ALIGN float whole[hn::MaxLanes(D())] = {};
    std::memcpy(whole, from, bytes);
    return hn::Load(D(), whole);
  }
  HWY_INLINE void store(V v, float* to) const {
    HWY_ALIGN float whole[hn::MaxLanes(D())];
    hn::Store(v, D(), whole);
    std::memcpy(to, whole, bytes);
  }
};

// Calls f(i, Whole or Part) for the vectors of n elements.
template <class F>
HWY_INLINE void for_vectors(int64_t n, F f) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) f(i, Whole());
  if (i < n) f(i, Part{static_cast<size_t>(n - i) * sizeof(float)});
}

// x[i] + r[i].
template <class Span>
HWY_INLINE V sum(Span at, const float* x, const float* r) {
  return hn::Add(at.load(x), at.load(r));
}

// (1 - z) candidate + z h.
HWY_INLINE V blend(V z, V candidate, V h) { return hn::MulAdd(z, hn::Sub(h, candidate), candidate); }

HWY_ATTR void rnn(const float* x, const float* r, float* h, int64_t n) {
  for_vectors(n, [&](int64_t i, auto at) HWY_ATTR { at.store(tanh(sum(at, x + i, r + i)), h + i); });
}

HWY_ATTR void lstm(const float* x, const float* r, float* c, float* h, int64_t n) {
  for_vectors(n, [&](int64_t i, auto at) HWY_ATTR {
    const auto gate = [&](int64_t k) HWY_ATTR { return sum(at, x + k * n + i, r + k * n + i); };
    const V input = sigmoid(gate(0)), output = sigmoid(gate(1)), forget = sigmoid(gate(2));
    const V cell = hn::MulAdd(forget, at.load(c + i), hn::Mul(input, tanh(gate(3))));
    at.store(cell, c + i);
    at.store(hn::Mul(output, tanh(cell)), h + i);
  });
}

HWY_ATTR void gru(const float* x, const float* r, float* h, int64_t n) {
  for_vectors(n, [&](int64_t i, auto at) HWY_ATTR {
    const V z = sigmoid(sum(at, x + i, r + i)), reset = sigmoid(sum(at, x + n + i, r + n + i));
    const V candidate = tanh(hn::MulAdd(reset, at.load(r + 2 * n + i), at.load(x + 2 * n + i)));
    at.store(blend(z, candidate, at.load(h + i)), h + i);
  });
}

HWY_ATTR void gru_reset(float* x, const float* r, const float* h, float* reset, int64_t n) {
  for_vectors(n, [&](int64_t i, auto at) HWY_ATTR {
    at.store(hn::Mul(sigmoid(sum(at, x + n + i, r + n + i)), at.load(h + i)), reset + i);
    at.store(sigmoid(sum(at, x + i, r + i)), x + i);
  });
}

HWY_ATTR void gru_candidate(const float* x, const float* r, float* h, int64_t n) {
  for_vectors(n, [&](int64_t i, auto at) HWY_ATTR {
    const V candidate = tanh(sum(at, x + 2 * n + i, r + i));
    at.store(blend(at.load(x + i), candidate, at.load(h + i)), h + i);
  });
}

}  // namespace attune::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attune {

HWY_EXPORT(rnn);
HWY_EXPORT(lstm);
HWY_EXPORT(gru);
HWY_EXPORT(gru_reset);
HWY_EXPORT(gru_candidate);

void rnn_row(const float* x, const float* r, float* h, int64_t n) { HWY_DYNAMIC_DISPATCH(rnn)(x, r, h, n); }
void lstm_row(const float* x, const float* r, float* c, float* h, int64_t n) {
  HWY_DYNAMIC_DISPATCH(lstm)(x, r, c, h, n);
}
void gru_row(const float* x, const float* r, float* h, int64_t n) { HWY_DYNAMIC_DISPATCH(gru)(x, r, h, n); }
void gru_reset_row(float* x, const float* r, const float* h, float* reset, int64_t n) {
  HWY_DYNAMIC_DISPATCH(gru_reset)(x, r, h, reset, n);
}
void gru_candidate_row(const float* x, const float* r, float* h, int64_t n) {
  HWY_DYNAMIC_DISPATCH(gru_candidate)(x, r, h, n);
}

}  // namespace attune
#endif
