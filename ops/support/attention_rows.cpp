#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/support/attention_rows.cpp"

#include "hwy/foreach_target.h"  // compiles this file once per instruction set
//
#include "ops/support/attention_rows.h"
#include "ops/support/attention_vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attune {
namespace rows {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using namespace attention_vectors::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace)

template <class T>
void score_dot_rows(RowBlock<T> keys, const float* query, float factor, float offset, float* scores) {
  const size_t lanes = hn::Lanes(Floats()), width = static_cast<size_t>(keys.width);
  const size_t whole = width / lanes * lanes, rest = width - whole;
  constexpr int64_t kRows = 4;
  int64_t i = 0;
  for (; i + kRows <= keys.count; i += kRows) {
    const T *r0 = keys.row(i), *r1 = keys.row(i + 1), *r2 = keys.row(i + 2), *r3 = keys.row(i + 3);
    Vector s0 = hn::Zero(Floats()), s1 = s0, s2 = s0, s3 = s0;
    for (size_t e = 0; e < whole; e += lanes) {
      const Vector q = load(query + e);
      s0 = hn::MulAdd(q, load(r0 + e), s0);
      s1 = hn::MulAdd(q, load(r1 + e), s1);
      s2 = hn::MulAdd(q, load(r2 + e), s2);
      s3 = hn::MulAdd(q, load(r3 + e), s3);
    }
    if (rest) {
      const Vector q = load_first(query + whole, rest);
      s0 = hn::MulAdd(q, load_first(r0 + whole, rest), s0);
      s1 = hn::MulAdd(q, load_first(r1 + whole, rest), s1);
      s2 = hn::MulAdd(q, load_first(r2 + whole, rest), s2);
      s3 = hn::MulAdd(q, load_first(r3 + whole, rest), s3);
    }
    scores[i] = factor * sum_of(s0) + offset;
    scores[i + 1] = factor * sum_of(s1) + offset;
    scores[i + 2] = factor * sum_of(s2) + offset;
    scores[i + 3] = factor * sum_of(s3) + offset;
  }
  for (; i < keys.count; ++i) {
    const T* row = keys.row(i);
    Vector s = hn::Zero(Floats());
    for (size_t e = 0; e < whole; e += lanes) s = hn::MulAdd(load(query + e), load(row + e), s);
    if (rest) s = hn::MulAdd(load_first(query + whole, rest), load_first(row + whole, rest), s);
    scores[i] = factor * sum_of(s) + offset;
  }
}

template <class T>
void score_additive_rows(RowBlock<T> keys, const float* query, const float* vector, float offset, float* scores) {
  const size_t lanes = hn::Lanes(Floats()), width = static_cast<size_t>(keys.width);
  const size_t whole = width / lanes * lanes, rest = width - whole;
  for (int64_t i = 0; i < keys.count; ++i) {
    const T* row = keys.row(i);
    Vector s = hn::Zero(Floats());
    for (size_t e = 0; e < whole; e += lanes)
      s = hn::MulAdd(load(vector + e), tanh_of(hn::Add(load(query + e), load(row + e))), s);
    if (rest)
      s = hn::MulAdd(load_first(vector + whole, rest),
                     tanh_of(hn::Add(load_first(query + whole, rest), load_first(row + whole, rest))), s);
    scores[i] = sum_of(s) + offset;
  }
}

template <class T>
void add_weighted_rows(RowBlock<T> values, const float* weights, float* sums) {
  const size_t lanes = hn::Lanes(Floats()), width = static_cast<size_t>(values.width);
  size_t e = 0;
  for (; e + 4 * lanes <= width; e += 4 * lanes) {
    Vector s0 = load(sums + e), s1 = load(sums + e + lanes), s2 = load(sums + e + 2 * lanes),
           s3 = load(sums + e + 3 * lanes);
    for (int64_t i = 0; i < values.count; ++i) {
      const T* row = values.row(i) + e;
      const Vector w = hn::Set(Floats(), weights[i]);
      s0 = hn::MulAdd(w, load(row), s0);
      s1 = hn::MulAdd(w, load(row + lanes), s1);
      s2 = hn::MulAdd(w, load(row + 2 * lanes), s2);
      s3 = hn::MulAdd(w, load(row + 3 * lanes), s3);
    }
    hn::StoreU(s0, Floats(), sums + e);
    hn::StoreU(s1, Floats(), sums + e + lanes);
    hn::StoreU(s2, Floats(), sums + e + 2 * lanes);
    hn::StoreU(s3, Floats(), sums + e + 3 * lanes);
  }
  for (; e + lanes <= width; e += lanes) {
    Vector s = load(sums + e);
    for (int64_t i = 0; i < values.count; ++i)
      s = hn::MulAdd(hn::Set(Floats(), weights[i]), load(values.row(i) + e), s);
    hn::StoreU(s, Floats(), sums + e);
  }
  if (const size_t rest = width - e; rest > 0) {
    Vector s = load_first(sums + e, rest);
    for (int64_t i = 0; i < values.count; ++i)
      s = hn::MulAdd(hn::Set(Floats(), weights[i]), load_first(values.row(i) + e, rest), s);
    store_first(s, sums + e, rest);
  }
}

// The part of `count` that fills vectors.
int64_t whole_vectors(int64_t count) {
  constexpr auto kStep = static_cast<int64_t>(hn::MaxLanes(Floats()));
  return count / kStep * kStep;
}

float exponentials_in_place(float* scores, int64_t count, float maximum) {
  const int64_t whole = whole_vectors(count);
  Vector sum = exponentials_of<false>(scores, whole, maximum);
  if (const size_t rest = static_cast<size_t>(count - whole); rest > 0) {
    const Vector e = exp_of_score(hn::Sub(load_first(scores + whole, rest), hn::Set(Floats(), maximum)));
    store_first(e, scores + whole, rest);
    sum = hn::Add(sum, hn::IfThenElseZero(hn::FirstN(Floats(), rest), e));
  }
  return sum_of(sum);
}

float largest_of_any(const float* numbers, int64_t count) {
  const int64_t whole = whole_vectors(count);
  float result = whole > 0 ? largest_of(numbers, whole) : -std::numeric_limits<float>::infinity();
  for (int64_t i = whole; i < count; ++i) result = numbers[i] > result ? numbers[i] : result;
  return result;
}

void soft_cap_of(float* numbers, int64_t count, float cap) {
  const size_t lanes = hn::Lanes(Floats()), n = static_cast<size_t>(count);
  const Vector c = hn::Set(Floats(), cap);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(hn::Mul(c, tanh_of(hn::Div(load(numbers + i), c))), Floats(), numbers + i);
  if (i < n) store_first(hn::Mul(c, tanh_of(hn::Div(load_first(numbers + i, n - i), c))), numbers + i, n - i);
}

void scale_of(float* numbers, int64_t count, float factor) {
  for (int64_t i = 0; i < count; ++i) numbers[i] *= factor;
}

const char* target_name() { return hwy::TargetName(HWY_TARGET); }

void score_dot_float(RowBlock<float> k, const float* q, float f, float o, float* s) { score_dot_rows(k, q, f, o, s); }
void score_dot_half(RowBlock<Float16> k, const float* q, float f, float o, float* s) { score_dot_rows(k, q, f, o, s); }
void score_dot_brain(RowBlock<BFloat16> k, const float* q, float f, float o, float* s) {
  score_dot_rows(k, q, f, o, s);
}
void score_additive_float(RowBlock<float> k, const float* q, const float* v, float o, float* s) {
  score_additive_rows(k, q, v, o, s);
}
void score_additive_half(RowBlock<Float16> k, const float* q, const float* v, float o, float* s) {
  score_additive_rows(k, q, v, o, s);
}
void score_additive_brain(RowBlock<BFloat16> k, const float* q, const float* v, float o, float* s) {
  score_additive_rows(k, q, v, o, s);
}
void add_weighted_float(RowBlock<float> v, const float* w, float* s) { add_weighted_rows(v, w, s); }
void add_weighted_half(RowBlock<Float16> v, const float* w, float* s) { add_weighted_rows(v, w, s); }
void add_weighted_brain(RowBlock<BFloat16> v, const float* w, float* s) { add_weighted_rows(v, w, s); }

}  // namespace HWY_NAMESPACE
}  // namespace rows
}  // namespace attune
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <algorithm>
#include <cmath>
#include <limits>

namespace attune {
namespace rows {

HWY_EXPORT(score_dot_float);
HWY_EXPORT(score_dot_half);
HWY_EXPORT(score_dot_brain);
HWY_EXPORT(score_additive_float);
HWY_EXPORT(score_additive_half);
HWY_EXPORT(score_additive_brain);
HWY_EXPORT(add_weighted_float);
HWY_EXPORT(add_weighted_half);
HWY_EXPORT(add_weighted_brain);
HWY_EXPORT(exponentials_in_place);
HWY_EXPORT(largest_of_any);
HWY_EXPORT(soft_cap_of);
HWY_EXPORT(scale_of);
HWY_EXPORT(target_name);

}  // namespace rows

using namespace rows;  // NOLINT(google-build-using-namespace): Highway's tables are looked up by bare names

void score_dot(RowBlock<float> keys, const float* query, float factor, float offset, float* scores) {
  HWY_DYNAMIC_DISPATCH(score_dot_float)(keys, query, factor, offset, scores);
}
void score_dot(RowBlock<Float16> keys, const float* query, float factor, float offset, float* scores) {
  HWY_DYNAMIC_DISPATCH(score_dot_half)(keys, query, factor, offset, scores);
}
void score_dot(RowBlock<BFloat16> keys, const float* query, float factor, float offset, float* scores) {
  HWY_DYNAMIC_DISPATCH(score_dot_brain)(keys, query, factor, offset, scores);
}
void score_dot(RowBlock<double> keys, const double* query, double factor, double offset, double* scores) {
  for (int64_t i = 0; i < keys.count; ++i) {
    double sum = 0;
    for (int64_t e = 0; e < keys.width; ++e) sum += query[e] * keys.row(i)[e];
    scores[i] = factor * sum + offset;
  }
}

void score_additive(RowBlock<float> keys, const float* query, const float* vector, float offset, float* scores) {
  HWY_DYNAMIC_DISPATCH(score_additive_float)(keys, query, vector, offset, scores);
}
void score_additive(RowBlock<Float16> keys, const float* query, const float* vector, float offset, float* scores) {
  HWY_DYNAMIC_DISPATCH(score_additive_half)(keys, query, vector, offset, scores);
}
void score_additive(RowBlock<BFloat16> keys, const float* query, const float* vector, float offset, float* scores) {
  HWY_DYNAMIC_DISPATCH(score_additive_brain)(keys, query, vector, offset, scores);
}
void score_additive(RowBlock<double> keys, const double* query, const double* vector, double offset, double* scores) {
  for (int64_t i = 0; i < keys.count; ++i) {
    double sum = 0;
    for (int64_t e = 0; e < keys.width; ++e) sum += vector[e] * std::tanh(query[e] + keys.row(i)[e]);
    scores[i] = sum + offset;
  }
}

void add_weighted(RowBlock<float> values, const float* weights, float* sums) {
  HWY_DYNAMIC_DISPATCH(add_weighted_float)(values, weights, sums);
}
void add_weighted(RowBlock<Float16> values, const float* weights, float* sums) {
  HWY_DYNAMIC_DISPATCH(add_weighted_half)(values, weights, sums);
}
void add_weighted(RowBlock<BFloat16> values, const float* weights, float* sums) {
  HWY_DYNAMIC_DISPATCH(add_weighted_brain)(values, weights, sums);
}
void add_weighted(RowBlock<double> values, const double* weights, double* sums) {
  for (int64_t i = 0; i < values.count; ++i)
    for (int64_t e = 0; e < values.width; ++e) sums[e] += weights[i] * values.row(i)[e];
}

float exponentials(float* scores, int64_t count, float maximum) {
  return HWY_DYNAMIC_DISPATCH(exponentials_in_place)(scores, count, maximum);
}
double exponentials(double* scores, int64_t count, double maximum) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += scores[i] = std::exp(scores[i] - maximum);
  return sum;
}

float largest(const float* numbers, int64_t count) { return HWY_DYNAMIC_DISPATCH(largest_of_any)(numbers, count); }
double largest(const double* numbers, int64_t count) {
  double result = -std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < count; ++i) result = std::max(result, numbers[i]);
  return result;
}

void soft_cap(float* numbers, int64_t count, float cap) { HWY_DYNAMIC_DISPATCH(soft_cap_of)(numbers, count, cap); }
void soft_cap(double* numbers, int64_t count, double cap) {
  for (int64_t i = 0; i < count; ++i) numbers[i] = cap * std::tanh(numbers[i] / cap);
}

void scale_numbers(float* numbers, int64_t count, float factor) {
  HWY_DYNAMIC_DISPATCH(scale_of)(numbers, count, factor);
}
void scale_numbers(double* numbers, int64_t count, double factor) {
  for (int64_t i = 0; i < count; ++i) numbers[i] *= factor;
}

const char* attention_target() { return HWY_DYNAMIC_DISPATCH(target_name)(); }

}  // namespace attune

#endif  // HWY_ONCE
