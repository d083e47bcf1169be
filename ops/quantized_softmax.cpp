// ONNX Runtime's QLinearSoftmax, with its roundings: a table of exponentials, summed in float one after the other, and
// the result in the number of whole steps in 1.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "ops/op.h"
#include "ops/support/counts.h"
#include "ops/support/parallel_items.h"
#include "ops/support/prepare.h"
#include "ops/support/quantized.h"

namespace attune {
namespace {

// The exponentials of 256 codes, from the largest one down: exp(-i scale), all times a factor that keeps sums of `n` of
// them in float's range.
std::array<float, 256> exponentials(float scale, int64_t n) {
  constexpr double kReserve = 5;
  const double most = static_cast<double>(std::numeric_limits<float>::max() / static_cast<float>(n));
  const double shift = std::max(0.0, std::log(most) - kReserve) / static_cast<double>(scale);
  std::array<float, 256> table;
  for (size_t i = 0; i < table.size(); ++i)
    table[i] = static_cast<float>(std::exp((shift - static_cast<double>(i)) * static_cast<double>(scale)));
  return table;
}

// n codes, `stride` apart.
template <class T>
void softmax(const std::array<float, 256>& table, const T* x, int64_t n, int64_t stride, float steps, int zero, T* y) {
  int largest = std::numeric_limits<T>::min();
  for (int64_t i = 0; i < n; ++i) largest = std::max<int>(largest, x[i * stride]);
  const auto exponential = [&](int64_t i) { return table[static_cast<size_t>(largest - x[i * stride])]; };
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += exponential(i);
  for (int64_t i = 0; i < n; ++i) {
    // NaN, of a scale that isn't positive, becomes the lowest code.
    const float code = std::nearbyint(exponential(i) * steps / sum) + static_cast<float>(zero);
    constexpr float kLowest = std::numeric_limits<T>::min(), kLargest = std::numeric_limits<T>::max();
    y[i * stride] = static_cast<T>(code > kLowest ? std::min(code, kLargest) : kLowest);
  }
}

// X, X_scale, X_zero_point (which cancels out), Y_scale, Y_zero_point.
class QuantizedSoftmaxKernel final : public Kernel {
 public:
  explicit QuantizedSoftmaxKernel(const KernelContext& context)
      : opset_(context.node().attr_int("opset", 13)), axis_(context.node().attr_int("axis", opset_ < 13 ? 1 : -1)) {}

  void run(KernelCall& call) const override {
    const Tensor& x = call.input(0);
    const size_t axis = normalize_axis(axis_, x.rank());
    const float scale = scale_of(call, 1), steps = std::floor(1.0F / scale_of(call, 3));
    // Before opset 13 all axes from `axis` on are one.
    const int64_t n = opset_ < 13 ? x.shape().count(axis, x.rank()) : x.dim(axis);
    const int64_t stride = opset_ < 13 ? 1 : x.shape().count(axis + 1, x.rank());
    const Tensor* zero_point = call.optional_input(4);
    if (zero_point) expect_one(*zero_point, 4);
    const int zero = zero_points(zero_point)[0];
    Tensor& y = call.output(0, x.type(), x.shape());
    if (x.count() == 0) return;
    const auto table = exponentials(scale, n);
    dispatch<int8_t, uint8_t>(x.type(), [&]<class T>() {
      const T* from = x.data<T>();
      T* to = y.mutable_data<T>();
      parallel_items(x.count() / n, 4 * n, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t at = i / stride * stride * n + i % stride;
          softmax(table, from + at, n, stride, steps, zero, to + at);
        }
      });
    });
  }
  std::string implementation() const override { return "table"; }

 private:
  static float scale_of(const KernelCall& call, size_t input) {
    const Tensor& scale = call.input(input);
    expect_type(scale, input, DataType::kFloat);
    expect_one(scale, input);
    return scale.data<float>()[0];
  }

  int64_t opset_, axis_;
};

}  // namespace

std::vector<OpDef> ops_in_quantized_softmax();
std::vector<OpDef> ops_in_quantized_softmax() {
  return {{"com.microsoft", "QLinearSoftmax", 1, prepare<QuantizedSoftmaxKernel>}};
}

}  // namespace attune
