// DeformConv: a 2-D convolution whose taps are moved by offsets and sampled bilinearly.
#include <fmt/format.h>

#include <cmath>

#include "ops/op.h"
#include "ops/support/float_tensor.h"
#include "ops/support/matrix_product.h"
#include "ops/support/parallel_items.h"
#include "ops/support/prepare.h"
#include "ops/support/window.h"

namespace attune {
namespace {

// X, W, offset, B, mask.
class DeformConvKernel : public FloatKernel<DeformConvKernel> {
 public:
  explicit DeformConvKernel(const KernelContext& context)
      : attributes_(context.node()),
        groups_(context.node().attr_int("group", 1)),
        offset_groups_(context.node().attr_int("offset_group", 1)) {}

 private:
  friend FloatKernel<DeformConvKernel>;
  template <class T>
  struct Image {
    Window window;
    const T *x, *offsets, *mask;  // of one item; mask may be null
    int64_t channels_per_offset;
  };

  template <class T>
  void compute(KernelCall& call) const {
    const Tensor &x = call.input(0), &w = call.input(1), &offset = call.input(2);
    if (x.rank() != 4) fail_input(0, "rank 4", x.shape().to_string());
    if (w.rank() != 4 || groups_ < 1 || w.dim(0) % groups_ != 0 || w.dim(1) * groups_ != x.dim(1))
      fail_input(1, fmt::format("weights for {} channels in {} groups", x.dim(1), groups_), w.shape().to_string());
    if (offset_groups_ < 1 || x.dim(1) % offset_groups_ != 0)
      fail_input(0, fmt::format("channels in {} offset groups", offset_groups_), x.shape().to_string());
    const Window window = make_window(attributes_, x.shape().last(2), w.shape().last(2));
    const int64_t taps = window.kernel_count(), positions = window.out_count(), channels = w.dim(1),
                  out_channels = w.dim(0) / groups_;
    const Shape wanted{x.dim(0), offset_groups_ * taps * 2, window.out[0], window.out[1]};
    if (!(offset.shape() == wanted)) fail_input(2, wanted.to_string(), offset.shape().to_string());
    const Tensor* mask_tensor = call.optional_input(4);
    const Shape mask_shape{x.dim(0), offset_groups_ * taps, window.out[0], window.out[1]};
    if (mask_tensor && !(mask_tensor->shape() == mask_shape))
      fail_input(4, mask_shape.to_string(), mask_tensor->shape().to_string());
    const Tensor* bias_tensor = call.optional_input(3);
    if (bias_tensor && bias_tensor->count() != w.dim(0))
      fail_input(3, fmt::format("{} values", w.dim(0)), bias_tensor->shape().to_string());

    const FloatView<T> in(x, call.pool()), weights(w, call.pool()), offsets(offset, call.pool()),
        bias(bias_tensor, call.pool()), mask(mask_tensor, call.pool());
    FloatResult<T> y(call, 0, x.type(), {x.dim(0), w.dim(0), window.out[0], window.out[1]});
    Tensor columns = Tensor::allocate(kDataTypeOf<T>, {x.dim(1), taps * positions}, call.pool());
    T* column = columns.template mutable_data<T>();
    for (int64_t n = 0; n < x.dim(0); ++n) {
      const Image<T> image{window, in.data() + n * x.dim(1) * window.in_count(),
                           offsets.data() + n * offset_groups_ * taps * 2 * positions,
                           mask ? mask.data() + n * offset_groups_ * taps * positions : nullptr,
                           x.dim(1) / offset_groups_};
      parallel_items(x.dim(1), 8 * taps * positions, [&](int64_t begin, int64_t end) {
        for (int64_t c = begin; c < end; ++c) unfold(image, c, column + c * taps * positions);
      });
      for (int64_t g = 0; g < groups_; ++g)
        product_.run(out_channels, positions, channels * taps, weights.data() + g * out_channels * channels * taps,
                     column + g * channels * taps * positions, y.data() + (n * groups_ + g) * out_channels * positions,
                     call.pool());
      for (int64_t o = 0; bias && o < w.dim(0); ++o)
        for (int64_t p = 0; p < positions; ++p) y.data()[(n * w.dim(0) + o) * positions + p] += bias[o];
    }
    y.store(call);
  }

  template <class T>
  static void unfold(const Image<T>& m, int64_t channel, T* columns) {
    const Window& w = m.window;
    const int64_t taps = w.kernel_count(), positions = w.out_count(), group = channel / m.channels_per_offset;
    const T* plane = m.x + channel * w.in_count();
    for (int64_t k = 0; k < taps; ++k)
      for (int64_t p = 0; p < positions; ++p) {
        const T* offset = m.offsets + (group * taps + k) * 2 * positions + p;
        const int64_t oy = p / w.out[1], ox = p % w.out[1], ky = k / w.kernel[1], kx = k % w.kernel[1];
        const T y = static_cast<T>(oy * w.stride[0] + ky * w.dilation[0] - w.pad_begin[0]) + offset[0];
        const T x = static_cast<T>(ox * w.stride[1] + kx * w.dilation[1] - w.pad_begin[1]) + offset[positions];
        const T factor = m.mask ? m.mask[(group * taps + k) * positions + p] : T{1};
        columns[k * positions + p] = factor * bilinear(plane, w.in, y, x);
      }
  }

  // Zero outside.
  template <class T>
  static T bilinear(const T* plane, const Shape& size, T y, T x) {
    if (!(y > -1 && y < static_cast<T>(size[0]) && x > -1 && x < static_cast<T>(size[1]))) return 0;
    const auto top = static_cast<int64_t>(std::floor(y)), left = static_cast<int64_t>(std::floor(x));
    const T fy = y - static_cast<T>(top), fx = x - static_cast<T>(left);
    const auto at = [&](int64_t r, int64_t c) {
      return r >= 0 && r < size[0] && c >= 0 && c < size[1] ? plane[r * size[1] + c] : T{0};
    };
    return (1 - fy) * ((1 - fx) * at(top, left) + fx * at(top, left + 1)) +
           fy * ((1 - fx) * at(top + 1, left) + fx * at(top + 1, left + 1));
  }

  WindowAttributes attributes_;
  int64_t groups_, offset_groups_;
  MatrixProduct product_;
};

}  // namespace

std::vector<OpDef> ops_in_deform_conv();
std::vector<OpDef> ops_in_deform_conv() { return {{"", "DeformConv", 19, prepare<DeformConvKernel>}}; }

}  // namespace attune
