// ConvInteger and QLinearConv: exact integer products with the unfolded input.
#include <fmt/format.h>

#include <cmath>

#include "ops/op.h"
#include "ops/support/counts.h"
#include "ops/support/float_tensor.h"
#include "ops/support/int8_product.h"
#include "ops/support/parallel_items.h"
#include "ops/support/prepare.h"
#include "ops/support/quantized.h"
#include "ops/support/window.h"

namespace attune {
namespace {

class IntegerConv {
 public:
  explicit IntegerConv(const KernelContext& context)
      : attributes_(context.node()), groups_(context.node().attr_int("group", 1)) {}

  struct Operands {
    size_t x, x_zero, w, w_zero;  // inputs
  };

  // int32 (N, O, spatial...): the sums over (x - x_zero) (w - w_zero).
  Tensor run(KernelCall& call, const Operands& at) const {
    const Tensor &x = call.input(at.x), &w = call.input(at.w);
    expect_int8(x, at.x);
    expect_int8(w, at.w);
    if (x.rank() < 3) fail_input(at.x, "rank 3 at least", x.shape().to_string());
    if (w.rank() != x.rank() || groups_ < 1 || w.dim(0) % groups_ != 0 || w.dim(1) * groups_ != x.dim(1))
      fail_input(at.w, fmt::format("weights for {} channels in {} groups", x.dim(1), groups_), w.shape().to_string());
    const Tensor *x_zero_tensor = call.optional_input(at.x_zero), *w_zero_tensor = call.optional_input(at.w_zero);
    if (x_zero_tensor) {
      expect_one(*x_zero_tensor, at.x_zero);
      expect_type(*x_zero_tensor, at.x_zero, x.type());
    }
    if (w_zero_tensor) {
      expect_one_or(*w_zero_tensor, at.w_zero, w.dim(0));
      expect_type(*w_zero_tensor, at.w_zero, w.type());
    }
    const std::vector<int32_t> x_zero = zero_points(x_zero_tensor), w_zero = zero_points(w_zero_tensor);
    const Window window = make_window(attributes_, x.shape().last(x.rank() - 2), w.shape().last(w.rank() - 2));
    Shape shape{x.dim(0), w.dim(0)};
    for (const int64_t size : window.out) shape.push_back(size);
    Tensor y = Tensor::allocate(DataType::kInt32, shape, call.pool());
    const int64_t out_channels = w.dim(0) / groups_, taps = w.dim(1) * window.kernel_count(),
                  positions = window.out_count();
    Tensor rows = Tensor::allocate(x.type(), {positions, taps}, call.pool());
    Tensor sums = Tensor::allocate(DataType::kInt32, {positions, out_channels}, call.pool());
    for (int64_t g = 0; g < groups_; ++g) {
      const Int8Weights weights =
          Int8Weights::pack(w.raw() + g * out_channels * taps, w.type(), taps, out_channels, /*transposed=*/true);
      const std::vector<int32_t> zero =
          w_zero.size() == 1
              ? w_zero
              : std::vector<int32_t>(w_zero.begin() + g * out_channels, w_zero.begin() + (g + 1) * out_channels);
      for (int64_t n = 0; n < x.dim(0); ++n) {
        const auto* image =
            reinterpret_cast<const uint8_t*>(x.raw()) + (n * groups_ + g) * w.dim(1) * window.in_count();
        unfold_rows(window, image, w.dim(1), static_cast<uint8_t>(x_zero[0]),
                    reinterpret_cast<uint8_t*>(rows.mutable_raw()));
        product_.run(rows.raw(), x.type(), positions, x_zero, weights, zero, sums.mutable_data<int32_t>(), call.pool());
        int32_t* out = y.mutable_data<int32_t>() + (n * groups_ + g) * out_channels * positions;
        for (int64_t c = 0; c < out_channels; ++c)
          for (int64_t p = 0; p < positions; ++p) out[c * positions + p] = sums.data<int32_t>()[p * out_channels + c];
      }
    }
    return y;
  }

  std::string implementation() const { return product_.implementation(); }

 private:
  // Row o: the elements under the window at output position o, channel by channel.
  static void unfold_rows(const Window& w, const uint8_t* image, int64_t channels, uint8_t padding, uint8_t* rows) {
    const int64_t kernel = w.kernel_count(), positions = w.out_count();
    std::vector<uint8_t> columns(static_cast<size_t>(kernel * positions));
    for (int64_t c = 0; c < channels; ++c) {
      unfold_channel(w, image + c * w.in_count(), padding, columns.data());
      for (int64_t o = 0; o < positions; ++o)
        for (int64_t k = 0; k < kernel; ++k)
          rows[(o * channels + c) * kernel + k] = columns[static_cast<size_t>(k * positions + o)];
    }
  }

  WindowAttributes attributes_;
  int64_t groups_;
  Int8Product product_;
};

// x, w, x_zero_point, w_zero_point.
class ConvIntegerKernel : public Kernel {
 public:
  explicit ConvIntegerKernel(const KernelContext& context) : conv_(context) {}
  void run(KernelCall& call) const override {
    call.set_output(0, conv_.run(call, {.x = 0, .x_zero = 2, .w = 1, .w_zero = 3}));
  }
  std::string implementation() const override { return conv_.implementation(); }

 private:
  IntegerConv conv_;
};

// x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, B.
class QLinearConvKernel : public Kernel {
 public:
  explicit QLinearConvKernel(const KernelContext& context) : conv_(context) {}

  void run(KernelCall& call) const override {
    const Tensor& zero = call.input(7);
    expect_int8(zero, 7);
    for (const size_t i : {1, 6, 7}) expect_one(call.input(i), i);
    const Tensor* bias = call.optional_input(8);
    if (bias) expect_type(*bias, 8, DataType::kInt32);
    const Tensor sums = conv_.run(call, {.x = 0, .x_zero = 2, .w = 3, .w_zero = 5});
    const FloatView<float> x_scale(call.input(1), call.pool()), w_scale(call.input(4), call.pool()),
        y_scale(call.input(6), call.pool());
    const int64_t channels = sums.dim(1), positions = sums.shape().count(2, sums.rank()),
                  scales = call.input(4).count();
    if (bias) expect_count(*bias, 8, channels);
    expect_one_or(call.input(4), 4, channels);
    const auto y_zero = static_cast<float>(zero_points(&zero)[0]);
    const float low = zero.type() == DataType::kInt8 ? -128.0F : 0.0F;
    Tensor& y = call.output(0, zero.type(), sums.shape());
    const int32_t* from = sums.data<int32_t>();
    auto* to = reinterpret_cast<uint8_t*>(y.mutable_raw());
    parallel_items(sums.dim(0) * channels, 4 * positions, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t c = i % channels;
        const float scale = x_scale[0] * w_scale[scales == 1 ? 0 : c] / y_scale[0];
        const int32_t b = bias ? bias->data<int32_t>()[c] : 0;
        for (int64_t p = i * positions; p < (i + 1) * positions; ++p) {
          const float v = std::nearbyint(static_cast<float>(from[p] + b) * scale) + y_zero;
          to[p] = to_code(v, low);
        }
      }
    });
  }
  std::string implementation() const override { return conv_.implementation(); }

 private:
  IntegerConv conv_;
};

}  // namespace

std::vector<OpDef> ops_in_quantized_conv();
std::vector<OpDef> ops_in_quantized_conv() {
  return {{"", "ConvInteger", 10, prepare<ConvIntegerKernel>}, {"", "QLinearConv", 10, prepare<QLinearConvKernel>}};
}

}  // namespace attune
