// Vectorised loops over rows of keys and values (AVX2, AVX-512 or what there is, chosen at run time).
//
// T is an operand's element type: float, Float16 or BFloat16 with float arithmetic, or double. Rows are `stride`
// elements apart and `width` long. A row's result doesn't depend on the rows beside it: equal keys score equally.
#pragma once

#include <cstdint>
#include <type_traits>

#include "graph/data_type.h"

namespace attune {

template <class T>
using Accumulator = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
struct RowBlock {
  const T* data;
  int64_t stride, count, width;
  const int32_t* places = nullptr;  // if set, row i is places[i] * place_stride elements further on
  int64_t place_stride = 0;

  const T* row(int64_t i) const { return data + i * stride + (places ? places[i] * place_stride : 0); }
};

// scores[i] = factor * sum_e query[e] * keys[i][e] + offset
void score_dot(RowBlock<float> keys, const float* query, float factor, float offset, float* scores);
void score_dot(RowBlock<Float16> keys, const float* query, float factor, float offset, float* scores);
void score_dot(RowBlock<BFloat16> keys, const float* query, float factor, float offset, float* scores);
void score_dot(RowBlock<double> keys, const double* query, double factor, double offset, double* scores);

// scores[i] = sum_e vector[e] * tanh(query[e] + keys[i][e]) + offset
void score_additive(RowBlock<float> keys, const float* query, const float* vector, float offset, float* scores);
void score_additive(RowBlock<Float16> keys, const float* query, const float* vector, float offset, float* scores);
void score_additive(RowBlock<BFloat16> keys, const float* query, const float* vector, float offset, float* scores);
void score_additive(RowBlock<double> keys, const double* query, const double* vector, double offset, double* scores);

// sums[e] += sum_i weights[i] * values[i][e]
void add_weighted(RowBlock<float> values, const float* weights, float* sums);
void add_weighted(RowBlock<Float16> values, const float* weights, float* sums);
void add_weighted(RowBlock<BFloat16> values, const float* weights, float* sums);
void add_weighted(RowBlock<double> values, const double* weights, double* sums);

// scores[i] = exp(scores[i] - maximum); gives their sum. NaN stays NaN.
float exponentials(float* scores, int64_t count, float maximum);
double exponentials(double* scores, int64_t count, double maximum);

// The largest of `count` numbers; -inf for none. With NaN among them: any.
float largest(const float* numbers, int64_t count);
double largest(const double* numbers, int64_t count);

// numbers[i] = cap * tanh(numbers[i] / cap)
void soft_cap(float* numbers, int64_t count, float cap);
void soft_cap(double* numbers, int64_t count, double cap);

void scale_numbers(float* numbers, int64_t count, float factor);
void scale_numbers(double* numbers, int64_t count, double factor);

// The instruction set in use: "AVX3", "AVX2" ...
const char* attention_target();

}  // namespace attune
