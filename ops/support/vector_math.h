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

}  // namespace attune::vector_math
