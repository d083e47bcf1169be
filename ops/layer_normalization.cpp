// Normalisations over the trailing axes, with or without a residual sum: LayerNormalization, RMSNormalization,
// ai.attune ResidualNormalization, and ONNX Runtime's SimplifiedLayerNormalization, SkipLayerNormalization and
// SkipSimplifiedLayerNormalization.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "ops/op.h"
#include "ops/support/broadcast_copy.h"
#include "ops/support/float_tensor.h"
#include "ops/support/parallel_items.h"
#include "ops/support/row_math.h"

namespace attune {
namespace {

constexpr size_t kNone = ~size_t{0};

// Where a node has what. Input 0 is x, output 0 the result.
struct Form {
  bool rms = false;
  size_t residual = kNone, scale = 1, bias = kNone;   // inputs
  size_t addend = kNone;                              // a vector added to x + residual
  size_t mean = kNone, inverse = kNone, sum = kNone;  // outputs
  bool result_has_scale_type = false;
};

class NormalizationKernel : public FloatKernel<NormalizationKernel> {
 public:
  NormalizationKernel(const Form& form, const Node& node)
      : form_(form),
        axis_(node.attr_int("axis", -1)),
        epsilon_(
            node.attr_float("epsilon", form.residual != kNone && node.domain() == "com.microsoft" ? 1e-12F : 1e-5F)),
        statistics_type_(static_cast<DataType>(node.attr_int("stash_type", 1))) {}

 private:
  friend FloatKernel<NormalizationKernel>;
  template <class T>
  struct Operands {
    Shape shape;  // of x
    int64_t rows = 1, n = 1;
    FloatView<T> x, residual, scale, bias, addend;
    int64_t residual_rows = 1;  // the residual repeats after so many rows
    int64_t scale_rows = 1, bias_rows = 1;
  };

  const Tensor* optional(KernelCall& call, size_t i) const { return i == kNone ? nullptr : call.optional_input(i); }

  // The view of input i, and after how many rows it repeats (a vector of n: 1). Other shapes are spread over x's.
  template <class T>
  std::pair<FloatView<T>, int64_t> rows_of(KernelCall& call, size_t i, const Shape& shape, size_t axis) const {
    const Tensor* t = optional(call, i);
    if (!t) return {};
    const int64_t n = shape.count(axis, shape.rank());
    const size_t ones = static_cast<size_t>(
        std::find_if(t->shape().begin(), t->shape().end(), [](int64_t s) { return s != 1; }) - t->shape().begin());
    const Shape significant = t->shape().last(t->rank() - ones);
    const bool suffix = significant.rank() <= shape.rank() && significant == shape.last(significant.rank()) && n > 0 &&
                        significant.count() % n == 0 && significant.count() > 0;
    if (suffix) return {FloatView<T>(*t, call.pool()), significant.count() / n};
    return within([&] { return fmt::format("input {}", i); },
                  [&]() -> std::pair<FloatView<T>, int64_t> {
                    const Tensor spread = broadcast_copy(*t, shape, call.pool());
                    return {FloatView<T>(spread, call.pool()), shape.count(0, axis)};
                  });
  }

  template <class T>
  void compute(KernelCall& call) const {
    const Tensor& x = call.input(0);
    const Shape shape = x.shape();
    const DataType type = x.type();
    if (shape.rank() == 0) fail_input(0, "rank 1 at least", "a scalar");
    const size_t axis = normalize_axis(axis_, shape.rank());
    Operands<T> o{
        shape, shape.count(0, axis), shape.count(axis, shape.rank()), FloatView<T>(x, call.pool()), {}, {}, {}, {}};
    std::tie(o.residual, o.residual_rows) = rows_of<T>(call, form_.residual, shape, axis);
    std::tie(o.scale, o.scale_rows) = rows_of<T>(call, form_.scale, shape, axis);
    std::tie(o.bias, o.bias_rows) = rows_of<T>(call, form_.bias, shape, axis);
    int64_t addend_rows = 1;
    std::tie(o.addend, addend_rows) = rows_of<T>(call, form_.addend, shape, axis);
    if (o.addend && addend_rows != 1) fail_input(form_.addend, "a vector", "another shape");

    const DataType result_type = form_.result_has_scale_type ? call.input(form_.scale).type() : type;
    Shape statistics_shape = shape;
    std::fill(statistics_shape.begin() + axis, statistics_shape.end(), 1);
    FloatResult<T> y(call, 0, result_type, shape), sum, mean, inverse;
    if (wanted(call, form_.sum)) sum = FloatResult<T>(call, form_.sum, type, shape);
    if (wanted(call, form_.mean)) mean = FloatResult<T>(call, form_.mean, statistics_type_, statistics_shape);
    if (wanted(call, form_.inverse)) inverse = FloatResult<T>(call, form_.inverse, statistics_type_, statistics_shape);
    if (o.n > 0) {
      parallel_items(o.rows, 4 * o.n, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          const RowStatistics<T> s = compute_row(o, r, y.data() + r * o.n, sum ? sum.data() + r * o.n : nullptr);
          if (mean) mean.data()[r] = s.mean;
          if (inverse) inverse.data()[r] = s.inverse;
        }
      });
    } else {
      // The mean of nothing.
      for (FloatResult<T>* statistics : {&mean, &inverse})
        if (*statistics) std::fill_n(statistics->data(), o.rows, std::numeric_limits<T>::quiet_NaN());
    }
    y.store(call);
    sum.store(call);
    mean.store(call);
    inverse.store(call);
  }

  static bool wanted(const KernelCall& call, size_t output) { return output != kNone && call.wants(output); }

  template <class T>
  RowStatistics<T> compute_row(const Operands<T>& o, int64_t r, T* y, T* sum) const {
    const int64_t n = o.n;
    const T* x = o.x.data() + r * n;
    if (o.residual || o.addend) {
      T* to = sum ? sum : y;
      if (o.residual) {
        add_row(x, o.residual.data() + r % o.residual_rows * n, to, n);
        x = to;
      }
      if (o.addend) add_row(x, o.addend.data(), to, n);
      x = to;
    } else if (sum) {
      std::copy(x, x + n, sum);
    }
    RowNormalization<T> how{form_.rms, static_cast<double>(epsilon_), nullptr, nullptr};
    if (o.scale) how.scale = o.scale.data() + r % o.scale_rows * n;
    if (o.bias) how.bias = o.bias.data() + r % o.bias_rows * n;
    return normalize_row(how, x, y, n);
  }

  Form form_;
  int64_t axis_;
  float epsilon_;
  DataType statistics_type_;
};

std::unique_ptr<Kernel> make(const Form& form, const KernelContext& context) {
  return std::make_unique<NormalizationKernel>(form, context.node());
}

std::unique_ptr<Kernel> make_layer(const KernelContext& c) { return make({.bias = 2, .mean = 1, .inverse = 2}, c); }

std::unique_ptr<Kernel> make_rms(const KernelContext& c) {
  return make({.rms = true, .result_has_scale_type = true}, c);
}

std::unique_ptr<Kernel> make_simplified(const KernelContext& c) {
  return make({.rms = true, .inverse = 1, .result_has_scale_type = true}, c);
}

std::unique_ptr<Kernel> make_skip(const KernelContext& c) {
  return make({.residual = 1, .scale = 2, .bias = 3, .addend = 4, .mean = 1, .inverse = 2, .sum = 3}, c);
}

std::unique_ptr<Kernel> make_skip_simplified(const KernelContext& c) {
  return make({.rms = true, .residual = 1, .scale = 2, .addend = 3, .mean = 1, .inverse = 2, .sum = 3}, c);
}

std::unique_ptr<Kernel> make_residual(const KernelContext& c) {
  const std::string kind = c.node().attr_string("kind", "layer");
  if (kind != "layer" && kind != "rms")
    throw Error(Error::Kind::kInvalidModel, fmt::format("kind must be 'layer' or 'rms', is '{}'", kind));
  return make({.rms = kind == "rms", .residual = 1, .scale = 2, .bias = 3, .sum = 1}, c);
}

}  // namespace

std::vector<OpDef> ops_in_layer_normalization();
std::vector<OpDef> ops_in_layer_normalization() {
  return {{"", "LayerNormalization", 1, make_layer},
          {"", "RMSNormalization", 23, make_rms},
          {"", "SimplifiedLayerNormalization", 1, make_simplified},
          {"com.microsoft", "SimplifiedLayerNormalization", 1, make_simplified},
          {"com.microsoft", "SkipLayerNormalization", 1, make_skip},
          {"com.microsoft", "SkipSimplifiedLayerNormalization", 1, make_skip_simplified},
          {"ai.attune", "ResidualNormalization", 1, make_residual}};
}

}  // namespace attune
