// ONNX Runtime's GELU forms: Gelu, FastGelu (tanh, with a bias), BiasGelu, QuickGelu.
#include <fmt/format.h>

#include <cmath>

#include "ops/op.h"
#include "ops/support/float_tensor.h"
#include "ops/support/panel_weights.h"
#include "ops/support/parallel_items.h"

namespace attune {
namespace {

enum class Kind { kErf, kTanh, kQuick };

template <class T>
T gelu(Kind kind, T alpha, T x) {
  switch (kind) {
    case Kind::kErf:
      return x / 2 * (1 + std::erf(x / std::sqrt(T{2})));
    case Kind::kTanh:
      return x / 2 * (1 + std::tanh(T(0.7978845608028654) * (x + T(0.044715) * x * x * x)));
    case Kind::kQuick:
      return x / (1 + std::exp(-alpha * x));
  }
  return x;
}

class GeluKernel : public Kernel {
 public:
  GeluKernel(Kind kind, const Node& node) : kind_(kind), alpha_(node.attr_float("alpha", 1.702F)) {}

  void run(KernelCall& call) const override {
    dispatch_float(call.input(0).type(), [&]<class T>() { compute<T>(call); });
  }

 private:
  template <class T>
  void compute(KernelCall& call) const {
    const Tensor& x = call.input(0);
    const Shape shape = x.shape();
    const Tensor* bias_tensor = call.optional_input(1);
    const int64_t n = shape.rank() ? shape.back() : 1;
    if (bias_tensor && bias_tensor->count() != n)
      fail_input(1, fmt::format("{} elements", n), bias_tensor->shape().to_string());
    const FloatView<T> in(x, call.pool()), bias(bias_tensor, call.pool());
    FloatResult<T> y(call, 0, x.type(), shape);
    const int64_t rows = n > 0 ? shape.count() / n : 0;
    parallel_items(rows, 8 * n, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin * n; i < end * n; ++i) y.data()[i] = in[i] + (bias ? bias[i % n] : T{0});
      apply(y.data() + begin * n, (end - begin) * n);
    });
    y.store(call);
  }

  void apply(float* values, int64_t count) const {
    if (kind_ == Kind::kErf) return activate(Activation::kGelu, values, count);
    if (kind_ == Kind::kTanh) return activate(Activation::kGeluTanh, values, count);
    for (int64_t i = 0; i < count; ++i) values[i] = gelu(kind_, alpha_, values[i]);
  }
  void apply(double* values, int64_t count) const {
    for (int64_t i = 0; i < count; ++i) values[i] = gelu(kind_, static_cast<double>(alpha_), values[i]);
  }

  Kind kind_;
  float alpha_;
};

template <Kind kKind>
std::unique_ptr<Kernel> make(const KernelContext& context) {
  return std::make_unique<GeluKernel>(kKind, context.node());
}

}  // namespace

std::vector<OpDef> ops_in_gelu();
std::vector<OpDef> ops_in_gelu() {
  return {{"com.microsoft", "Gelu", 1, make<Kind::kErf>},
          {"com.microsoft", "BiasGelu", 1, make<Kind::kErf>},
          {"com.microsoft", "FastGelu", 1, make<Kind::kTanh>},
          {"com.microsoft", "QuickGelu", 1, make<Kind::kQuick>}};
}

}  // namespace attune
