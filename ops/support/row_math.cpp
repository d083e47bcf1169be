#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/support/row_math.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h must come before highway.h.
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/support/row_math.h"

HWY_BEFORE_NAMESPACE();
namespace attune::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

HWY_INLINE int64_t lanes() { return static_cast<int64_t>(hn::Lanes(D())); }

// Calls f(vector of x) for whole vectors, and scalar(x[i]) for the rest.
template <class F, class S>
HWY_INLINE void for_row(const float* x, int64_t n, F f, S scalar) {
  const D d;
  int64_t i = 0;
  for (; i + lanes() <= n; i += lanes()) f(hn::LoadU(d, x + i));
  for (; i < n; ++i) scalar(x[i]);
}

// The maximum; NaN if there is one.
float row_maximum(const float* x, int64_t n) {
  const D d;
  const float lowest = -std::numeric_limits<float>::infinity();
  V best = hn::Set(d, lowest);
  auto nan = hn::IsNaN(best);
  float rest = lowest;
  bool rest_nan = false;
  for_row(
      x, n,
      [&](V v) HWY_ATTR {
        nan = hn::Or(nan, hn::IsNaN(v));
        best = hn::Max(best, v);
      },
      [&](float v) {
        rest_nan |= std::isnan(v);
        rest = std::max(rest, v);
      });
  if (rest_nan || !hn::AllFalse(d, nan)) return std::numeric_limits<float>::quiet_NaN();
  return std::max(rest, hn::GetLane(hn::MaxOfLanes(d, best)));
}

// y = exp(x - shift) if kStore; the sum of it.
template <bool kStore>
float exp_row(const float* x, float shift, float* y, int64_t n) {
  const D d;
  const V s = hn::Set(d, shift);
  V sum = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes() <= n; i += lanes()) {
    const V e = hn::Exp(d, hn::Sub(hn::LoadU(d, x + i), s));
    if constexpr (kStore) hn::StoreU(e, d, y + i);
    sum = hn::Add(sum, e);
  }
  float total = hn::GetLane(hn::SumOfLanes(d, sum));
  for (; i < n; ++i) {
    const float e = std::exp(x[i] - shift);
    if constexpr (kStore) y[i] = e;
    total += e;
  }
  return total;
}

void softmax_row(const float* x, float* y, int64_t n) {
  const float shift = row_maximum(x, n);
  if (!std::isfinite(shift)) {
    std::fill(y, y + n, std::numeric_limits<float>::quiet_NaN());
    return;
  }
  const float factor = 1.0F / exp_row<true>(x, shift, y, n);
  const D d;
  const V f = hn::Set(d, factor);
  int64_t i = 0;
  for (; i + lanes() <= n; i += lanes()) hn::StoreU(hn::Mul(hn::LoadU(d, y + i), f), d, y + i);
  for (; i < n; ++i) y[i] *= factor;
}

RowSum sum_row(const float* x, int64_t n) {
  const float shift = row_maximum(x, n);
  return {shift, std::isfinite(shift) ? exp_row<false>(x, shift, nullptr, n) : 0.0F};
}

void subtract_log_sum(const float* x, const LogSum& sum, float* y, int64_t n) {
  if (!std::isfinite(sum.shift)) {
    std::fill(y, y + n, std::numeric_limits<float>::quiet_NaN());
    return;
  }
  // x - shift first: both may be large, and their difference is what counts.
  const D d;
  const V s = hn::Set(d, sum.shift), l = hn::Set(d, sum.log);
  int64_t i = 0;
  for (; i + lanes() <= n; i += lanes()) hn::StoreU(hn::Sub(hn::Sub(hn::LoadU(d, x + i), s), l), d, y + i);
  for (; i < n; ++i) y[i] = x[i] - sum.shift - sum.log;
}

struct Sums {
  float first, second;  // of x - shift, and of its squares
};

Sums sums_around(const float* x, float shift, int64_t n) {
  const D d;
  const V s = hn::Set(d, shift);
  V first = hn::Zero(d), second = hn::Zero(d);
  Sums rest{};
  for_row(
      x, n,
      [&](V v) HWY_ATTR {
        const V c = hn::Sub(v, s);
        first = hn::Add(first, c);
        second = hn::MulAdd(c, c, second);
      },
      [&](float v) {
        rest.first += v - shift;
        rest.second += (v - shift) * (v - shift);
      });
  return {rest.first + hn::GetLane(hn::SumOfLanes(d, first)), rest.second + hn::GetLane(hn::SumOfLanes(d, second))};
}

RowStatistics<float> normalize_row(const RowNormalization<float>& how, const float* x, float* y, int64_t n) {
  const D d;
  const auto count = static_cast<float>(n);
  float mean = 0;
  double variance;
  if (how.rms) {
    variance = static_cast<double>(sums_around(x, 0.0F, n).second / count);
  } else {
    // Around the first element the sum stays small where all elements are large; around that mean what is left of it
    // is exact, so that elements near the mean come out right.
    const float guess = x[0] + sums_around(x, x[0], n).first / count;
    const Sums sums = sums_around(x, guess, n);
    const float rest = sums.first / count;
    mean = guess + rest;
    variance =
        std::max(0.0, static_cast<double>(sums.second / count) - static_cast<double>(rest) * static_cast<double>(rest));
  }
  const auto inverse = static_cast<float>(1.0 / std::sqrt(variance + how.epsilon));
  const V m = hn::Set(d, mean), f = hn::Set(d, inverse);
  int64_t i = 0;
  for (; i + lanes() <= n; i += lanes()) {
    V v = hn::Mul(hn::Sub(hn::LoadU(d, x + i), m), f);
    if (how.scale) v = hn::Mul(v, hn::LoadU(d, how.scale + i));
    if (how.bias) v = hn::Add(v, hn::LoadU(d, how.bias + i));
    hn::StoreU(v, d, y + i);
  }
  for (; i < n; ++i) {
    float v = (x[i] - mean) * inverse;
    if (how.scale) v *= how.scale[i];
    if (how.bias) v += how.bias[i];
    y[i] = v;
  }
  return {mean, inverse};
}

int64_t find_above(const float* x, int64_t begin, int64_t n, float bound) {
  const D d;
  const V limit = hn::Set(d, bound);
  int64_t i = begin;
  for (; i + lanes() <= n; i += lanes()) {
    const auto first = hn::FindFirstTrue(d, hn::Gt(hn::LoadU(d, x + i), limit));
    if (first >= 0) return i + static_cast<int64_t>(first);
  }
  while (i < n && !(x[i] > bound)) ++i;
  return i;
}

int64_t argmax_row(const float* x, int64_t n) {
  const D d;
  const float lowest = -std::numeric_limits<float>::infinity();
  V best = hn::Set(d, lowest);
  float most = lowest;
  for_row(
      x, n, [&](V v) HWY_ATTR { best = hn::IfThenElse(hn::Gt(v, best), v, best); },
      [&](float v) { most = v > most ? v : most; });
  most = std::max(most, hn::GetLane(hn::MaxOfLanes(d, best)));
  const V wanted = hn::Set(d, most);
  int64_t i = 0;
  for (; i + lanes() <= n; i += lanes()) {
    const auto first = hn::FindFirstTrue(d, hn::Eq(hn::LoadU(d, x + i), wanted));
    if (first >= 0) return i + static_cast<int64_t>(first);
  }
  while (i < n && x[i] != most) ++i;
  return i < n ? i : 0;
}

void add_row(const float* a, const float* b, float* y, int64_t n) {
  const D d;
  int64_t i = 0;
  for (; i + lanes() <= n; i += lanes()) hn::StoreU(hn::Add(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, y + i);
  for (; i < n; ++i) y[i] = a[i] + b[i];
}

}  // namespace attune::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <vector>

namespace attune {

HWY_EXPORT(softmax_row);
HWY_EXPORT(sum_row);
HWY_EXPORT(subtract_log_sum);
HWY_EXPORT(normalize_row);
HWY_EXPORT(argmax_row);
HWY_EXPORT(find_above);
HWY_EXPORT(add_row);

void softmax_row(const float* x, float* y, int64_t n) { HWY_DYNAMIC_DISPATCH(softmax_row)(x, y, n); }
RowSum sum_row(const float* x, int64_t n) { return HWY_DYNAMIC_DISPATCH(sum_row)(x, n); }
void subtract_log_sum(const float* x, const LogSum& sum, float* y, int64_t n) {
  HWY_DYNAMIC_DISPATCH(subtract_log_sum)(x, sum, y, n);
}
RowStatistics<float> normalize_row(const RowNormalization<float>& how, const float* x, float* y, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(normalize_row)(how, x, y, n);
}
int64_t argmax_row(const float* x, int64_t n) { return HWY_DYNAMIC_DISPATCH(argmax_row)(x, n); }
int64_t find_above(const float* x, int64_t begin, int64_t n, float bound) {
  return HWY_DYNAMIC_DISPATCH(find_above)(x, begin, n, bound);
}
void add_row(const float* a, const float* b, float* y, int64_t n) { HWY_DYNAMIC_DISPATCH(add_row)(a, b, y, n); }

LogSum join_sums(const RowSum* stretches, int64_t count) {
  float shift = -std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < count; ++i) {
    if (std::isnan(stretches[i].shift)) return {stretches[i].shift, 0};
    shift = std::max(shift, stretches[i].shift);
  }
  float sum = 0;
  for (int64_t i = 0; i < count; ++i)
    if (stretches[i].sum > 0) sum += stretches[i].sum * std::exp(stretches[i].shift - shift);
  return {shift, std::log(sum)};
}

LogSum log_sum_row(const float* x, int64_t n) {
  if (n <= kLogSumStretch) {
    const RowSum sum = sum_row(x, n);
    return join_sums(&sum, 1);
  }
  std::vector<RowSum> sums;
  for (int64_t i = 0; i < n; i += kLogSumStretch) sums.push_back(sum_row(x + i, std::min(kLogSumStretch, n - i)));
  return join_sums(sums.data(), static_cast<int64_t>(sums.size()));
}

void log_softmax_row(const float* x, float* y, int64_t n) { subtract_log_sum(x, log_sum_row(x, n), y, n); }

void softmax_row(const double* x, double* y, int64_t n) {
  const double shift = *std::max_element(x, x + n);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += y[i] = std::exp(x[i] - shift);
  for (int64_t i = 0; i < n; ++i) y[i] /= sum;
}

void log_softmax_row(const double* x, double* y, int64_t n) {
  const double shift = *std::max_element(x, x + n);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += std::exp(x[i] - shift);
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] - shift - std::log(sum);
}

RowStatistics<double> normalize_row(const RowNormalization<double>& how, const double* x, double* y, int64_t n) {
  double mean = 0, variance = 0;
  if (!how.rms)
    for (int64_t i = 0; i < n; ++i) mean += x[i] / static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i) variance += (x[i] - mean) * (x[i] - mean) / static_cast<double>(n);
  const double inverse = 1.0 / std::sqrt(variance + how.epsilon);
  for (int64_t i = 0; i < n; ++i)
    y[i] = (x[i] - mean) * inverse * (how.scale ? how.scale[i] : 1.0) + (how.bias ? how.bias[i] : 0.0);
  return {mean, inverse};
}

void add_row(const double* a, const double* b, double* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = a[i] + b[i];
}

}  // namespace attune
#endif
