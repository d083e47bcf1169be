// ai.attune Linear: y = activation(x w + bias) + residual.
#include <fmt/format.h>

#include "ops/op.h"
#include "ops/support/float_tensor.h"
#include "ops/support/linear.h"
#include "ops/support/linear_inputs.h"
#include "ops/support/product.h"

namespace attune {
namespace {

class LinearKernel : public Kernel {
 public:
  explicit LinearKernel(const KernelContext& context)
      : transposed_(context.node().attr_int("transposed", 0) != 0),
        activation_(activation_from_name(context.node().attr_string("activation", "none"))) {
    weights_ = LinearWeights::of_input(context, 1, transposed_);
  }

  void run(KernelCall& call) const override {
    const Tensor& x = call.input(0);
    const DataType type = x.type();
    if (x.rank() == 0) fail_input(0, "rank 1 at least", "a scalar");
    if (!weights_) expect_rank(call.input(1), 1, 2);
    const int64_t inner = weights_ ? weights_->inner() : call.input(1).dim(transposed_ ? 1 : 0);
    const int64_t columns = weights_ ? weights_->columns() : call.input(1).dim(transposed_ ? 0 : 1);
    if (x.shape().back() != inner) fail_input(0, fmt::format("a last axis of {}", inner), x.shape().to_string());
    Shape shape = x.shape();
    shape.back() = columns;
    const int64_t rows = shape.count(0, shape.rank() - 1);

    const FloatView<float> in(x, call.pool());
    const FloatView<float> bias = read_bias(call, 2, columns), residual = read_residual(call, 3, shape);
    const Epilogue epilogue{bias.data(), activation_, residual.data(), columns};
    FloatResult<float> y(call, 0, type, shape);
    if (weights_) {
      weights_->run(in.data(), rows, y.data(), epilogue, call.pool());
    } else {
      const Tensor& w = call.input(1);
      const FloatView<float> matrix(w, call.pool());
      const MatrixView view{matrix.data(), w.shape(), {w.dim(1), 1}};
      product_.run({in.data(), {rows, inner}, {inner, 1}}, transposed_ ? view.transposed() : view, y.data(),
                   call.pool());
      apply_epilogue(y.data(), rows, columns, epilogue);
    }
    y.store(call);
  }

  bool uses_input(size_t i) const override { return i != 1 || !weights_; }
  std::string implementation() const override {
    return weights_ ? weights_->implementation() : product_.implementation();
  }

 private:
  bool transposed_;
  Activation activation_;
  std::unique_ptr<LinearWeights> weights_;
  FloatProduct product_;
};

std::unique_ptr<Kernel> make_linear(const KernelContext& context) { return std::make_unique<LinearKernel>(context); }

}  // namespace

std::vector<OpDef> ops_in_linear();
std::vector<OpDef> ops_in_linear() { return {{"ai.attune", "Linear", 1, make_linear}}; }

}  // namespace attune
