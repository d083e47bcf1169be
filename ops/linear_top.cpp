// LinearTop: the largest column of x w + bias, for plans that choose tokens (see runtime/selection.h). No file has it.
#include <fmt/format.h>

#include "ops/op.h"
#include "ops/support/float_tensor.h"
#include "ops/support/linear.h"
#include "ops/support/top_column.h"

namespace attune {
namespace {

// Inputs: x (..., K), w, bias (N)?, excluded columns int64 in ascending order. Output: int64 (rows).
class LinearTopKernel final : public Kernel {
 public:
  explicit LinearTopKernel(const KernelContext& context) {
    std::shared_ptr<const LinearWeights> linear =
        LinearWeights::of_input(context, 1, context.node().attr_int("transposed", 0) != 0);
    if (!linear || !linear->panels()) throw Error(Error::Kind::kUnsupported, "input 1: expected packed weights");
    implementation_ = linear->implementation();
    weights_ = std::make_unique<StretchedWeights>(std::shared_ptr<const PanelWeights>(linear, linear->panels()));
  }

  void run(KernelCall& call) const override {
    const Tensor& x = call.input(0);
    if (x.rank() == 0 || x.shape().back() != weights_->inner())
      fail_input(0, fmt::format("a last axis of {}", weights_->inner()), x.shape().to_string());
    const Tensor* bias_tensor = call.optional_input(2);
    if (bias_tensor && bias_tensor->count() != weights_->columns())
      fail_input(2, fmt::format("shape ({})", weights_->columns()), bias_tensor->shape().to_string());
    expect_type(call.input(3), 3, DataType::kInt64);
    const int64_t rows = x.shape().count(0, x.rank() - 1);
    const FloatView<float> in(x, call.pool()), bias(bias_tensor, call.pool());
    weights_->top_column(in.data(), rows, bias.data(), call.input(3).values<int64_t>(),
                         call.output(0, DataType::kInt64, {rows}).mutable_data<int64_t>(), call.pool());
  }

  bool uses_input(size_t i) const override { return i != 1; }
  std::string implementation() const override { return implementation_; }

 private:
  std::unique_ptr<StretchedWeights> weights_;
  std::string implementation_;
};

std::unique_ptr<Kernel> make(const KernelContext& context) { return std::make_unique<LinearTopKernel>(context); }

}  // namespace

std::vector<OpDef> ops_in_linear_top();
std::vector<OpDef> ops_in_linear_top() { return {{"ai.attune.runtime", "LinearTop", 1, make}}; }

}  // namespace attune
