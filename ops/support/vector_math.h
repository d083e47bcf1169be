// Vectorised functions on float arrays, for the best instruction set of the machine. `out` may be `in`.
#pragma once

#include <cstddef>

namespace attune::vector_math {

// At most 4 ULP from the correctly rounded result, IEEE results for infinities and NaN.
void exp(const float* in, float* out, size_t n);
void log(const float* in, float* out, size_t n);
void tanh(const float* in, float* out, size_t n);
// Absolute error below 2e-7 (erf), relative to the largest value.
void erf(const float* in, float* out, size_t n);
void sigmoid(const float* in, float* out, size_t n);             // 1 / (1 + exp(-x))
void silu(const float* in, float* out, size_t n);                // x * sigmoid(x)
void swish(const float* in, float* out, size_t n, float alpha);  // x * sigmoid(alpha * x)
void gelu(const float* in, float* out, size_t n);                // x * (1 + erf(x / sqrt(2))) / 2
void gelu_tanh(const float* in, float* out, size_t n);           // the approximation by tanh

// out[i] = a[i * a_step] op b[i * b_step]; steps are 0 or 1; `out` may be an operand of step 1.
void add(const float* a, size_t a_step, const float* b, size_t b_step, float* out, size_t n);
void subtract(const float* a, size_t a_step, const float* b, size_t b_step, float* out, size_t n);
void multiply(const float* a, size_t a_step, const float* b, size_t b_step, float* out, size_t n);
void divide(const float* a, size_t a_step, const float* b, size_t b_step, float* out, size_t n);
// out[i] = condition[i] ? a[i * a_step] : b[i * b_step].
void select(const bool* condition, const float* a, size_t a_step, const float* b, size_t b_step, float* out, size_t n);

}  // namespace attune::vector_math
