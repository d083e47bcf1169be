// Conv (any number of spatial axes, groups, dilation), as a product with the unfolded input.
#include <fmt/format.h>

#include "ops/op.h"
#include "ops/support/float_tensor.h"
#include "ops/support/matrix_product.h"
#include "ops/support/parallel_items.h"
#include "ops/support/prepare.h"
#include "ops/support/window.h"

namespace attune {
namespace {

class ConvKernel final : public FloatKernel<ConvKernel> {
 public:
  explicit ConvKernel(const KernelContext& context)
      : attributes_(context.node()), groups_(context.node().attr_int("group", 1)) {}

  std::string implementation() const override { return product_.implementation(); }

 private:
  friend FloatKernel<ConvKernel>;
  template <class T>
  void compute(KernelCall& call) const {
    const Tensor &x = call.input(0), &w = call.input(1);
    if (x.rank() < 3) fail_input(0, "rank 3 at least", x.shape().to_string());
    if (w.rank() != x.rank() || groups_ < 1 || w.dim(0) % groups_ != 0 || w.dim(1) * groups_ != x.dim(1))
      fail_input(1, fmt::format("weights for {} channels in {} groups", x.dim(1), groups_), w.shape().to_string());
    const Window window = make_window(attributes_, x.shape().last(x.rank() - 2), w.shape().last(w.rank() - 2));
    const int64_t batch = x.dim(0), channels = w.dim(1), out_channels = w.dim(0) / groups_;
    Shape shape{batch, w.dim(0)};
    for (const int64_t size : window.out) shape.push_back(size);
    const Tensor* bias_tensor = call.optional_input(2);
    if (bias_tensor && bias_tensor->count() != w.dim(0))
      fail_input(2, fmt::format("{} values", w.dim(0)), bias_tensor->shape().to_string());

    const FloatView<T> in(x, call.pool()), weights(w, call.pool()), bias(bias_tensor, call.pool());
    FloatResult<T> y(call, 0, x.type(), shape);
    const int64_t taps = channels * window.kernel_count(), positions = window.out_count();
    if (positions == 0) return y.store(call);
    for (int64_t n = 0; n < batch; ++n)
      for (int64_t g = 0; g < groups_; ++g) {
        const T* image = in.data() + (n * groups_ + g) * channels * window.in_count();
        T* out = y.data() + (n * groups_ + g) * out_channels * positions;
        const T* matrix = weights.data() + g * out_channels * taps;
        if (channels == 1 && out_channels == 1 && !window.is_pointwise()) {
          filter(window, image, matrix, out);
        } else {
          const Tensor columns = window.is_pointwise() ? Tensor() : unfold(call, window, image, channels);
          product_.run(out_channels, positions, taps, matrix, columns.defined() ? columns.template data<T>() : image,
                       out, call.pool());
        }
      }
    if (bias)
      parallel_items(batch * w.dim(0), positions, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          for (int64_t p = 0; p < positions; ++p) y.data()[i * positions + p] += bias[i % w.dim(0)];
      });
    y.store(call);
  }

  template <class T>
  static Tensor unfold(KernelCall& call, const Window& window, const T* image, int64_t channels) {
    Tensor columns =
        Tensor::allocate(kDataTypeOf<T>, {channels, window.kernel_count() * window.out_count()}, call.pool());
    T* to = columns.template mutable_data<T>();
    parallel_items(channels, window.kernel_count() * window.out_count(), [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c)
        unfold_channel(window, image + c * window.in_count(), T{0},
                       to + c * window.kernel_count() * window.out_count());
    });
    return columns;
  }

  // One channel to one channel.
  template <class T>
  static void filter(const Window& window, const T* image, const T* taps, T* out) {
    for_each_position(window.out, [&](int64_t o, const Shape& at) {
      T sum = 0;
      for_each_tap(window, at, [&](int64_t i, int64_t k, bool inside) {
        if (inside) sum += image[i] * taps[k];
      });
      out[o] = sum;
    });
  }

  WindowAttributes attributes_;
  int64_t groups_;
  MatrixProduct product_;
};

}  // namespace

std::vector<OpDef> ops_in_conv();
std::vector<OpDef> ops_in_conv() { return {{"", "Conv", 1, prepare<ConvKernel>}}; }

}  // namespace attune
