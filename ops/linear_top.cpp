// LinearTop: the largest columns of x w + bias, for plans that choose tokens (see runtime/selection.h). No file has it.
#include <fmt/format.h>

#include "ops/op.h"
#include "ops/support/float_tensor.h"
#include "ops/support/linear.h"
#include "ops/support/linear_inputs.h"
#include "ops/support/top_columns.h"

namespace attune {
namespace {

// Inputs: x (..., K), w, bias (N)?, request int64: how many columns, then the excluded ones in ascending order; offsets
// float (rows or a part of them)?, which make the results log-probabilities plus an offset (see TopColumns). Outputs:
// the columns int64 (rows, count), and their results float (rows, count).
class LinearTopKernel final : public Kernel {
 public:
  explicit LinearTopKernel(const KernelContext& context) {
    const auto linear = LinearWeights::of_input(context, 1, context.node().attr_int("transposed", 0) != 0);
    if (!linear || !linear->panels()) throw Error(Error::Kind::kUnsupported, "input 1: expected packed weights");
    implementation_ = linear->implementation();
    weights_ = std::make_unique<StretchedWeights>(*linear->panels());
  }

  void run(KernelCall& call) const override {
    const Tensor& x = call.input(0);
    if (x.rank() == 0 || x.shape().back() != weights_->inner())
      fail_input(0, fmt::format("a last axis of {}", weights_->inner()), x.shape().to_string());
    expect_type(call.input(3), 3, DataType::kInt64);
    const int64_t rows = x.shape().count(0, x.rank() - 1);
    const auto request = call.input(3).values<int64_t>();
    TopColumns top;
    if (request.empty() || request[0] < 1 || request[0] > weights_->columns())
      fail_input(3, fmt::format("a count from 1 to {} first", weights_->columns()),
                 request.empty() ? "nothing" : fmt::format("{}", request[0]));
    top.count = request[0];
    top.excluded = request.subspan(1);
    const std::vector<float> offsets = offsets_of_rows(call.optional_input(4), rows);
    if (!offsets.empty()) top.offsets = offsets.data();
    const FloatView<float> in(x, call.pool()), bias = read_bias(call, 2, weights_->columns());
    top.columns = call.output(0, DataType::kInt64, {rows, top.count}).mutable_data<int64_t>();
    top.values = call.output(1, DataType::kFloat, {rows, top.count}).mutable_data<float>();
    weights_->top_columns(in.data(), rows, bias.data(), top, call.pool());
  }

  bool uses_input(size_t i) const override { return i != 1; }
  std::string implementation() const override { return implementation_; }

 private:
  // One for each row; of several rows in turn where there are fewer (positions of one sequence). Empty: none.
  static std::vector<float> offsets_of_rows(const Tensor* given, int64_t rows) {
    if (!given || given->count() == 0) return {};
    expect_type(*given, 4, DataType::kFloat);
    const int64_t count = given->count();
    if (rows % count != 0) fail_input(4, fmt::format("a part of {} numbers", rows), given->shape().to_string());
    std::vector<float> out(static_cast<size_t>(rows));
    for (int64_t r = 0; r < rows; ++r) out[static_cast<size_t>(r)] = given->data<float>()[r / (rows / count)];
    return out;
  }

  std::unique_ptr<StretchedWeights> weights_;
  std::string implementation_;
};

std::unique_ptr<Kernel> make(const KernelContext& context) { return std::make_unique<LinearTopKernel>(context); }

}  // namespace

std::vector<OpDef> ops_in_linear_top();
std::vector<OpDef> ops_in_linear_top() { return {{"ai.attune.runtime", "LinearTop", 1, make}}; }

}  // namespace attune
