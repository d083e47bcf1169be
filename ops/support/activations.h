// Activations that several operators share, as tables of row functions. Formulas: the ONNX operator documentation.
#pragma once

#include <cmath>

#include "ops/support/elementwise.h"
#include "ops/support/vector_math.h"

namespace attune {

template <class T>
T sigmoid(T x) {
  const T e = std::exp(-std::abs(x));
  return x >= 0 ? 1 / (1 + e) : e / (1 + e);
}

// A function with parameters alpha and beta, which it reads as a<T>() and b<T>().
struct Parametric {
  explicit Parametric(const Parameters& p) : parameters(p) {}
  template <class T>
  T a() const {
    return static_cast<T>(parameters.alpha);
  }
  template <class T>
  T b() const {
    return static_cast<T>(parameters.beta);
  }
  Parameters parameters;
};

struct SigmoidFunction {
  template <class T>
  T operator()(T x) const {
    return sigmoid(x);
  }
};
struct SwishFunction : Parametric {
  using Parametric::Parametric;
  template <class T>
  T operator()(T x) const {
    return x * sigmoid(a<T>() * x);
  }
};
struct GeluFunction {
  template <class T>
  T operator()(T x) const {
    return x / 2 * (1 + std::erf(x / T(1.4142135623730951)));
  }
};
struct GeluTanhFunction {
  template <class T>
  T operator()(T x) const {
    return x / 2 * (1 + std::tanh(T(0.7978845608028654) * (x + T(0.044715) * x * x * x)));
  }
};

constexpr UnaryTable swish_table() {
  UnaryTable table = float_table<SwishFunction>();
  table[DataType::kFloat] = [](const std::byte* in, std::byte* out, size_t n, const Parameters& p) {
    vector_math::swish(reinterpret_cast<const float*>(in), reinterpret_cast<float*>(out), n,
                       static_cast<float>(p.alpha));
  };
  return table;
}

inline constexpr UnaryTable kSigmoid = vector_table<SigmoidFunction, vector_math::sigmoid>();
inline constexpr UnaryTable kSwish = swish_table();                                    // x * sigmoid(alpha * x)
inline constexpr UnaryTable kSilu = vector_table<SwishFunction, vector_math::silu>();  // alpha 1
inline constexpr UnaryTable kGelu = vector_table<GeluFunction, vector_math::gelu>();   // by erf
inline constexpr UnaryTable kGeluTanh = vector_table<GeluTanhFunction, vector_math::gelu_tanh>();

}  // namespace attune
