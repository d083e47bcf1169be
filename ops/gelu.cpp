// ONNX Runtime's GELU forms: Gelu, FastGelu (tanh, with a bias), BiasGelu, QuickGelu.
#include <fmt/format.h>

#include "ops/op.h"
#include "ops/support/activations.h"
#include "ops/support/float_tensor.h"
#include "ops/support/parallel_items.h"

namespace attune {
namespace {

class GeluKernel final : public FloatKernel<GeluKernel> {
 public:
  GeluKernel(const UnaryTable& table, Parameters parameters) : table_(table), parameters_(parameters) {}

 private:
  friend FloatKernel<GeluKernel>;
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
      auto* values = reinterpret_cast<std::byte*>(y.data() + begin * n);
      table_[kDataTypeOf<T>](values, values, static_cast<size_t>((end - begin) * n), parameters_);
    });
    y.store(call);
  }

  const UnaryTable& table_;
  Parameters parameters_;
};

template <const UnaryTable& kTable>
std::unique_ptr<Kernel> make(const KernelContext& context) {
  return std::make_unique<GeluKernel>(kTable, Parameters{context.node().attr_float("alpha", 1.702F), 0});
}

}  // namespace

std::vector<OpDef> ops_in_gelu();
std::vector<OpDef> ops_in_gelu() {
  return {{"com.microsoft", "Gelu", 1, make<kGelu>},
          {"com.microsoft", "BiasGelu", 1, make<kGelu>},
          {"com.microsoft", "FastGelu", 1, make<kGeluTanh>},
          {"com.microsoft", "QuickGelu", 1, make<kSwish>}};
}

}  // namespace attune
