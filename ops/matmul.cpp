// MatMul, and ONNX Runtime's FusedMatMul.
#include <fmt/format.h>

#include "ops/op.h"
#include "ops/support/float_tensor.h"
#include "ops/support/linear.h"
#include "ops/support/product.h"

namespace attune {
namespace {

// y = alpha (a or its transpose) (b or its transpose). transpose_batch: the first axis comes last but one first, that
// is axes (1 .. r-2, 0, r-1) are the batch axes, the row and the column.
struct Options {
  float alpha = 1;
  bool transpose_a = false, transpose_b = false, transpose_batch_a = false, transpose_batch_b = false;
};

// Axis 0 moved to just before the last.
MatrixView move_batch(const MatrixView& v) {
  MatrixView m = v;
  const size_t r = v.sizes.rank();
  for (size_t i = 0; i + 2 < r; ++i) {
    m.sizes[i] = v.sizes[i + 1];
    m.strides[i] = v.strides[i + 1];
  }
  m.sizes[r - 2] = v.sizes[0];
  m.strides[r - 2] = v.strides[0];
  return m;
}

class MatMulKernel : public Kernel {
 public:
  MatMulKernel(const KernelContext& context, const Options& options) : options_(options) {
    // A double a needs the plain product.
    if (!options.transpose_a && !options.transpose_batch_a && context.input_type(0) != DataType::kDouble)
      weights_ = LinearWeights::of_input(context, 1, options.transpose_b);
  }

  void run(KernelCall& call) const override {
    const Tensor& a = call.input(0);
    if (a.rank() == 0) fail_input(0, "rank 1 at least", "a scalar");
    if (weights_) return run_linear(call, a);
    const Tensor& b = call.input(1);
    if (b.rank() == 0) fail_input(1, "rank 1 at least", "a scalar");
    if (b.type() != a.type()) fail_input(1, name(a.type()), name(b.type()));
    if (a.type() == DataType::kFloat || is_half(a.type())) return run_float(call, a, b);
    if (options_.transpose_a || options_.transpose_b || options_.transpose_batch_a || options_.transpose_batch_b)
      fail_type(a.type());
    run_plain(call, a, b);
  }

  bool accepts_strided(size_t) const override { return true; }
  bool uses_input(size_t i) const override { return i != 1 || !weights_; }
  std::string implementation() const override {
    return weights_ ? weights_->implementation() : product_.implementation();
  }

 private:
  void run_linear(KernelCall& call, const Tensor& a) const {
    if (a.shape().back() != weights_->inner())
      fail_input(0, fmt::format("a last axis of {}", weights_->inner()), a.shape().to_string());
    Shape shape = a.shape();
    shape.back() = weights_->columns();
    const DataType type = a.type();
    const FloatView<float> x(a, call.pool());
    FloatResult<float> y(call, 0, type, shape);
    weights_->run(x.data(), shape.count(0, shape.rank() - 1), y.data(), {}, call.pool());
    finish(y.data(), shape.count());
    y.store(call);
  }

  void run_float(KernelCall& call, const Tensor& a, const Tensor& b) const {
    const bool direct = a.type() == DataType::kFloat;
    const FloatView<float> wide_a = direct ? FloatView<float>() : FloatView<float>(a, call.pool());
    const FloatView<float> wide_b = direct ? FloatView<float>() : FloatView<float>(b, call.pool());
    const auto view = [&](const Tensor& t, const FloatView<float>& wide) {
      return direct ? MatrixView::of(t) : MatrixView{wide.data(), t.shape(), onednn::dense_strides(t.shape())};
    };
    MatrixView x = view(a, wide_a), w = view(b, wide_b);
    if (a.rank() == 1) {
      x.sizes.insert(0, 1);
      x.strides.insert(0, x.sizes.back());
    } else {
      if (options_.transpose_batch_a) x = move_batch(x);
      if (options_.transpose_a) x = x.transposed();
    }
    if (b.rank() == 1) {
      w.sizes.push_back(1);
      w.strides.push_back(1);
    } else {
      if (options_.transpose_batch_b) w = move_batch(w);
      if (options_.transpose_b) w = w.transposed();
    }
    const Shape shape = result_shape(x.sizes, w.sizes, a.rank() == 1, b.rank() == 1);
    FloatResult<float> y(call, 0, a.type(), shape);
    product_.run(x, w, y.data(), call.pool());
    finish(y.data(), shape.count());
    y.store(call);
  }

  void run_plain(KernelCall& call, const Tensor& a, const Tensor& b) const {
    Shape x = a.shape(), w = b.shape();
    if (a.rank() == 1) x.insert(0, 1);
    if (b.rank() == 1) w.push_back(1);
    if (x.back() != w[w.rank() - 2])
      throw Error(Error::Kind::kInvalidArgument,
                  fmt::format("inner sizes differ: {} times {}", a.shape().to_string(), b.shape().to_string()));
    Tensor y = Tensor::allocate(a.type(), result_shape(x, w, false, false), call.pool());
    multiply_plain(a.to_contiguous(call.pool()).reshaped(x), b.to_contiguous(call.pool()).reshaped(w), y);
    call.set_output(0, y.reshaped(result_shape(x, w, a.rank() == 1, b.rank() == 1)));
  }

  static Shape result_shape(const Shape& x, const Shape& w, bool no_rows, bool no_columns) {
    Shape shape = broadcast_batch(x, w);
    if (!no_rows) shape.push_back(x[x.rank() - 2]);
    if (!no_columns) shape.push_back(w.back());
    return shape;
  }

  void finish(float* y, int64_t count) const {
    if (options_.alpha == 1.0F) return;
    for (int64_t i = 0; i < count; ++i) y[i] *= options_.alpha;
  }

  Options options_;
  std::unique_ptr<LinearWeights> weights_;
  FloatProduct product_;
};

std::unique_ptr<Kernel> make_matmul(const KernelContext& context) {
  return std::make_unique<MatMulKernel>(context, Options{});
}

std::unique_ptr<Kernel> make_fused(const KernelContext& context) {
  const Node& n = context.node();
  return std::make_unique<MatMulKernel>(
      context, Options{n.attr_float("alpha", 1.0F), n.attr_int("transA", 0) != 0, n.attr_int("transB", 0) != 0,
                       n.attr_int("transBatchA", 0) != 0, n.attr_int("transBatchB", 0) != 0});
}

}  // namespace

std::vector<OpDef> ops_in_matmul();
std::vector<OpDef> ops_in_matmul() {
  return {{"", "MatMul", 1, make_matmul},
          {"com.microsoft", "FusedMatMul", 1, make_fused},
          {"com.microsoft", "TransposeMatMul", 1, make_fused}};
}

}  // namespace attune
