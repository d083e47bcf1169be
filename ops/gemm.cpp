// Gemm: y = alpha a' b' + beta c, and ONNX Runtime's FusedGemm with an activation.
#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "ops/op.h"
#include "ops/support/broadcast_copy.h"
#include "ops/support/float_tensor.h"
#include "ops/support/linear.h"
#include "ops/support/product.h"

namespace attune {
namespace {

// The activation of FusedGemm, by its ONNX name, with its parameter.
std::function<float(float)> fused_activation(const Node& node) {
  const std::string kind = node.attr_string("activation", "");
  const float alpha = node.attr_float("activation_alpha", kind == "LeakyRelu"     ? 0.01F
                                                          : kind == "HardSigmoid" ? 0.2F
                                                                                  : 1.0F);
  const float beta = node.attr_float("activation_beta", 0.5F);
  if (kind.empty()) return {};
  if (kind == "Relu") return [](float x) { return x < 0 ? 0.0F : x; };
  if (kind == "LeakyRelu") return [alpha](float x) { return x >= 0 ? x : alpha * x; };
  if (kind == "Tanh") return [](float x) { return std::tanh(x); };
  if (kind == "Sigmoid") return [](float x) { return 1.0F / (1.0F + std::exp(-x)); };
  if (kind == "Elu") return [alpha](float x) { return x >= 0 ? x : alpha * std::expm1(x); };
  if (kind == "Softplus") return [](float x) { return std::max(x, 0.0F) + std::log1p(std::exp(-std::abs(x))); };
  if (kind == "Softsign") return [](float x) { return x / (1.0F + std::abs(x)); };
  if (kind == "HardSigmoid") return [alpha, beta](float x) { return std::min(1.0F, std::max(0.0F, alpha * x + beta)); };
  throw Error(Error::Kind::kUnsupported, fmt::format("activation '{}'", kind));
}

class GemmKernel : public Kernel {
 public:
  explicit GemmKernel(const KernelContext& context, std::function<float(float)> activation = {})
      : alpha_(context.node().attr_float("alpha", 1.0F)),
        beta_(context.node().attr_float("beta", 1.0F)),
        transpose_a_(context.node().attr_int("transA", 0) != 0),
        transpose_b_(context.node().attr_int("transB", 0) != 0),
        activation_(std::move(activation)) {
    if (!transpose_a_ && context.input_type(0) != DataType::kDouble)
      weights_ = LinearWeights::of_input(context, 1, transpose_b_);
  }

  void run(KernelCall& call) const override {
    const Tensor& a = call.input(0);
    expect_rank(a, 0, 2);
    const int64_t k = a.dim(transpose_a_ ? 0 : 1);
    if (weights_) {
      if (k != weights_->inner())
        fail_input(0, fmt::format("{} along the inner axis", weights_->inner()), a.shape().to_string());
      return run_float(call, a, {a.dim(0), weights_->columns()});
    }
    const Tensor& b = call.input(1);
    expect_rank(b, 1, 2);
    if (b.type() != a.type()) fail_input(1, name(a.type()), name(b.type()));
    if (b.dim(transpose_b_ ? 1 : 0) != k)
      fail_input(1, fmt::format("{} along the inner axis", k), b.shape().to_string());
    const Shape shape{a.dim(transpose_a_ ? 1 : 0), b.dim(transpose_b_ ? 0 : 1)};
    switch (a.type()) {
      case DataType::kFloat:
      case DataType::kFloat16:
      case DataType::kBFloat16:
        return run_float(call, a, shape);
      default:
        dispatch<double, int32_t, int64_t, uint32_t, uint64_t>(a.type(),
                                                               [&]<class T>() { run_plain<T>(call, a, b, shape); });
    }
  }

  bool uses_input(size_t i) const override { return i != 1 || !weights_; }
  std::string implementation() const override {
    return weights_ ? weights_->implementation() : product_.implementation();
  }

 private:
  void run_float(KernelCall& call, const Tensor& a, const Shape& shape) const {
    const FloatView<float> x(a, call.pool());
    const int64_t rows = shape[0], columns = shape[1];
    const Tensor* c = call.optional_input(2);
    const bool is_bias =
        c && c->count() == columns && c->rank() > 0 && c->shape().back() == columns && alpha_ == 1.0F && beta_ == 1.0F;
    const FloatView<float> bias(is_bias ? c : nullptr, call.pool());
    const Epilogue epilogue{bias.data(), Activation::kNone, nullptr, 0};
    FloatResult<float> y(call, 0, a.type(), shape);
    if (weights_) {
      weights_->run(x.data(), rows, y.data(), epilogue, call.pool());
    } else {
      const Tensor& b = call.input(1);
      const FloatView<float> w(b, call.pool());
      const MatrixView va{x.data(), a.shape(), {a.dim(1), 1}}, vb{w.data(), b.shape(), {b.dim(1), 1}};
      product_.run(transpose_a_ ? va.transposed() : va, transpose_b_ ? vb.transposed() : vb, y.data(), call.pool());
      apply_epilogue(y.data(), rows, columns, epilogue);
    }
    if (!is_bias && (c || alpha_ != 1.0F)) {
      const FloatView<float> addend = spread<float>(call, c, shape);
      for (int64_t i = 0; i < shape.count(); ++i)
        y.data()[i] = alpha_ * y.data()[i] + (addend ? beta_ * addend[i] : 0.0F);
    }
    if (activation_)
      for (int64_t i = 0; i < shape.count(); ++i) y.data()[i] = activation_(y.data()[i]);
    y.store(call);
  }

  template <class T>
  static FloatView<T> spread(KernelCall& call, const Tensor* c, const Shape& shape) {
    if (!c) return {};
    return within("input 2", [&] { return FloatView<T>(broadcast_copy(*c, shape, call.pool()), call.pool()); });
  }

  template <class T>
  void run_plain(KernelCall& call, const Tensor& a, const Tensor& b, const Shape& shape) const {
    const Tensor x = transpose_a_ ? transpose<T>(a) : a, w = transpose_b_ ? transpose<T>(b) : b;
    const Tensor* c = call.optional_input(2);
    Tensor y = Tensor::allocate(a.type(), shape, call.pool());
    multiply_plain(x, w, y);
    const Tensor addend = c ? within("input 2", [&] { return broadcast_copy(*c, shape, call.pool()); }) : Tensor();
    if (c) expect_type(*c, 2, a.type());
    T* out = y.mutable_data<T>();
    for (int64_t i = 0; i < shape.count(); ++i) {
      const double sum = static_cast<double>(alpha_) * static_cast<double>(out[i]) +
                         (c ? static_cast<double>(beta_) * static_cast<double>(addend.data<T>()[i]) : 0.0);
      if (alpha_ == 1.0F && beta_ == 1.0F && c) {
        out[i] = static_cast<T>(out[i] + addend.data<T>()[i]);
      } else if (alpha_ != 1.0F || c) {
        out[i] = static_cast<T>(sum);
      }
    }
    call.set_output(0, std::move(y));
  }

  template <class T>
  static Tensor transpose(const Tensor& t) {
    const int64_t rows = t.dim(0), columns = t.dim(1);
    Tensor out = Tensor::allocate(t.type(), {columns, rows});
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) out.mutable_data<T>()[c * rows + r] = t.data<T>()[r * columns + c];
    return out;
  }

  float alpha_, beta_;
  bool transpose_a_, transpose_b_;
  std::function<float(float)> activation_;
  std::unique_ptr<LinearWeights> weights_;
  FloatProduct product_;
};

std::unique_ptr<Kernel> make_gemm(const KernelContext& context) { return std::make_unique<GemmKernel>(context); }
std::unique_ptr<Kernel> make_fused(const KernelContext& context) {
  return std::make_unique<GemmKernel>(context, fused_activation(context.node()));
}

}  // namespace

std::vector<OpDef> ops_in_gemm();
std::vector<OpDef> ops_in_gemm() { return {{"", "Gemm", 1, make_gemm}, {"com.microsoft", "FusedGemm", 1, make_fused}}; }

}  // namespace attune
