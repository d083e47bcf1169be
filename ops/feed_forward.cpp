// FeedForward: two ai.attune Linear nodes, one behind the other, for plans that round activations (see
// runtime/feed_forward.h). No file has it.
#include <fmt/format.h>

#include "ops/op.h"
#include "ops/support/float_tensor.h"
#include "ops/support/linear.h"
#include "ops/support/linear_inputs.h"

namespace attune {
namespace {

// Inputs: x (..., K), w1, b1 (H)?, w2, b2 (N)?, residual?. Attributes: activation1, transposed1, activation2,
// transposed2; all as those of Linear. Output: activation2(activation1(x w1 + b1) w2 + b2) + residual.
class FeedForwardKernel final : public Kernel {
 public:
  explicit FeedForwardKernel(const KernelContext& context) : first_(context, 1, "1"), second_(context, 3, "2") {
    if (first_.weights->columns() != second_.weights->inner())
      fail_input(3, fmt::format("{} rows", first_.weights->columns()), fmt::format("{}", second_.weights->inner()));
  }

  void run(KernelCall& call) const override {
    const Tensor& x = call.input(0);
    if (x.rank() == 0 || x.shape().back() != first_.weights->inner())
      fail_input(0, fmt::format("a last axis of {}", first_.weights->inner()), x.shape().to_string());
    Shape shape = x.shape();
    shape.back() = second_.weights->columns();
    const FloatView<float> in(x, call.pool()), b1 = read_bias(call, 2, first_.weights->columns()),
                                               b2 = read_bias(call, 4, shape.back()),
                                               residual = read_residual(call, 5, shape);
    FloatResult<float> y(call, 0, x.type(), shape);
    if (shape.count() > 0)
      PanelWeights::multiply_twice(*first_.weights->panels(), {b1.data(), first_.activation},
                                   *second_.weights->panels(), in.data(), shape.count(0, shape.rank() - 1), y.data(),
                                   {b2.data(), second_.activation, residual.data(), shape.back()}, call.pool());
    y.store(call);
  }

  bool uses_input(size_t i) const override { return i != 1 && i != 3; }
  std::string implementation() const override { return second_.weights->implementation(); }

 private:
  struct Product {
    Product(const KernelContext& context, size_t input, const std::string& which)
        : weights(LinearWeights::of_input(context, input, context.node().attr_int("transposed" + which, 0) != 0)),
          activation(activation_from_name(context.node().attr_string("activation" + which, "none"))) {
      if (!weights || !weights->panels())
        throw Error(Error::Kind::kUnsupported, fmt::format("input {}: expected packed weights", input));
    }
    std::unique_ptr<LinearWeights> weights;
    Activation activation;
  };

  Product first_, second_;
};

std::unique_ptr<Kernel> make(const KernelContext& context) { return std::make_unique<FeedForwardKernel>(context); }

}  // namespace

std::vector<OpDef> ops_in_feed_forward();
std::vector<OpDef> ops_in_feed_forward() { return {{"ai.attune.runtime", "FeedForward", 1, make}}; }

}  // namespace attune
