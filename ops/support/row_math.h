// Row operations of softmax and normalisations, in SIMD for float and plainly for double.
#pragma once

#include <cstdint>

namespace attune {

// y = softmax(x) of n >= 1 elements; y may be x. A row with NaN or +inf, or of only -inf, becomes NaN, as IEEE has it.
void softmax_row(const float* x, float* y, int64_t n);
void softmax_row(const double* x, double* y, int64_t n);
// The sum of exp(x - shift) of a row, or of a stretch of one; shift is its largest element, NaN if one is NaN. The sum
// is 0 where shift isn't finite.
struct RowSum {
  float shift, sum;
};
// log(sum(exp(x))) of a row as shift + log, which stay apart: both may be large.
struct LogSum {
  float shift, log;
};
inline constexpr int64_t kLogSumStretch = 1024;  // elements of a stretch; the last may have fewer
RowSum sum_row(const float* x, int64_t n);
// Of the stretches of a row, in order: what log_sum_row() gives of the row, bit for bit.
LogSum join_sums(const RowSum* stretches, int64_t count);
LogSum log_sum_row(const float* x, int64_t n);
// y = (x - shift) - log; NaN if shift isn't finite.
void subtract_log_sum(const float* x, const LogSum& sum, float* y, int64_t n);
// y = x - max - log(sum(exp(x - max))), by log_sum_row() and subtract_log_sum().
void log_softmax_row(const float* x, float* y, int64_t n);
void log_softmax_row(const double* x, double* y, int64_t n);

template <class T>
struct RowNormalization {
  bool rms = false;  // y = x / sqrt(mean(x^2) + epsilon), else of x - mean(x)
  double epsilon = 1e-5;
  const T* scale = nullptr;  // (n), or null for 1
  const T* bias = nullptr;   // (n), or null for 0
};
template <class T>
struct RowStatistics {
  T mean = 0, inverse = 0;  // inverse: 1 / sqrt(variance + epsilon)
};

// Normalises a row of n >= 1; y may be x.
RowStatistics<float> normalize_row(const RowNormalization<float>& how, const float* x, float* y, int64_t n);
RowStatistics<double> normalize_row(const RowNormalization<double>& how, const double* x, double* y, int64_t n);

// The position of the largest of n >= 1 elements, the first of equal ones; NaN counts as the smallest.
int64_t argmax_row(const float* x, int64_t n);
// The first position from `begin` on whose element is larger than `bound`; n if there is none.
int64_t find_above(const float* x, int64_t begin, int64_t n, float bound);

// y = a + b.
void add_row(const float* a, const float* b, float* y, int64_t n);
void add_row(const double* a, const double* b, double* y, int64_t n);

}  // namespace attune
