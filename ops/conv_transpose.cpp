// ConvTranspose: a product with the weights, whose columns are added up where their windows lie.
#include <fmt/format.h>

#include "ops/op.h"
#include "ops/support/float_tensor.h"
#include "ops/support/matrix_product.h"
#include "ops/support/parallel_items.h"
#include "ops/support/prepare.h"
#include "ops/support/window.h"

namespace attune {
namespace {

class ConvTransposeKernel : public FloatKernel<ConvTransposeKernel> {
 public:
  explicit ConvTransposeKernel(const KernelContext& context)
      : attributes_(context.node()),
        output_padding_(context.node().attr_ints("output_padding")),
        output_shape_(context.node().attr_ints("output_shape")),
        groups_(context.node().attr_int("group", 1)) {}

  std::string implementation() const override { return product_.implementation(); }

 private:
  friend FloatKernel<ConvTransposeKernel>;
  // The window of the convolution whose transpose this is: its input is our output.
  Window window(const Shape& x, const Shape& kernel) const {
    const size_t rank = x.rank();
    Window w{x,
             kernel,
             WindowAttributes::spread(attributes_.strides, "strides", rank, 1),
             WindowAttributes::spread(attributes_.dilations, "dilations", rank, 1),
             {},
             {},
             x};
    expect_positive(w.kernel, "kernel sizes");
    expect_positive(w.stride, "strides");
    expect_positive(w.dilation, "dilations");
    const Shape extra = WindowAttributes::spread(output_padding_, "output_padding", rank, 0);
    const Shape pads = WindowAttributes::spread(attributes_.pads, "pads", 2 * rank, 0);
    w.pad_begin.resize(rank, 0);
    w.pad_end.resize(rank, 0);
    const auto& output_shape = output_shape_;
    const std::string& automatic = attributes_.auto_pad;
    const bool same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
    if (!output_shape.empty() && output_shape.size() != rank && output_shape.size() != rank + 2)
      throw Error(Error::Kind::kInvalidModel,
                  fmt::format("attribute output_shape: expected {} values, got {}", rank, output_shape.size()));
    for (size_t i = 0; i < rank; ++i) {
      const int64_t full = (x[i] - 1) * w.stride[i] + w.extent(i) + extra[i];
      if (!output_shape.empty() || same) {
        w.in[i] = output_shape.empty() ? x[i] * w.stride[i] : output_shape[output_shape.size() - rank + i];
        const int64_t total = std::max<int64_t>(0, full - w.in[i]);
        w.pad_begin[i] = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
        w.pad_end[i] = total - w.pad_begin[i];
      } else {
        if (automatic == "NOTSET") {
          w.pad_begin[i] = pads[i];
          w.pad_end[i] = pads[rank + i];
        }
        w.in[i] = full - w.pad_begin[i] - w.pad_end[i];
      }
      if (w.in[i] < 0) throw Error(Error::Kind::kInvalidArgument, "the padding is larger than the output");
    }
    return w;
  }

  template <class T>
  void compute(KernelCall& call) const {
    const Tensor &x = call.input(0), &w = call.input(1);
    if (x.rank() < 3) fail_input(0, "rank 3 at least", x.shape().to_string());
    if (w.rank() != x.rank() || w.dim(0) != x.dim(1) || groups_ < 1 || w.dim(0) % groups_ != 0)
      fail_input(1, fmt::format("weights for {} channels in {} groups", x.dim(1), groups_), w.shape().to_string());
    const Window win = window(x.shape().last(x.rank() - 2), w.shape().last(w.rank() - 2));
    const int64_t channels = x.dim(1) / groups_, out_channels = w.dim(1), all_out = out_channels * groups_;
    Shape shape{x.dim(0), all_out};
    for (const int64_t size : win.in) shape.push_back(size);
    const Tensor* bias_tensor = call.optional_input(2);
    if (bias_tensor && bias_tensor->count() != all_out)
      fail_input(2, fmt::format("{} values", all_out), bias_tensor->shape().to_string());
    const FloatView<T> in(x, call.pool()), weights(w, call.pool()), bias(bias_tensor, call.pool());
    FloatResult<T> y(call, 0, x.type(), shape);
    const int64_t positions = win.out_count(), taps = win.kernel_count(), pixels = win.in_count();
    for (int64_t i = 0; i < x.dim(0) * all_out; ++i)
      std::fill_n(y.data() + i * pixels, pixels, bias ? bias[i % all_out] : T{0});
    if (positions == 0) return y.store(call);
    Tensor columns = Tensor::allocate(kDataTypeOf<T>, {out_channels * taps, positions}, call.pool());
    T* column = columns.template mutable_data<T>();
    for (int64_t n = 0; n < x.dim(0); ++n)
      for (int64_t g = 0; g < groups_; ++g) {
        product_.run(out_channels * taps, positions, channels, weights.data() + g * channels * out_channels * taps,
                     in.data() + (n * groups_ + g) * channels * positions, column, call.pool(), /*transposed_a=*/true);
        T* out = y.data() + (n * groups_ + g) * out_channels * pixels;
        parallel_items(out_channels, taps * positions, [&](int64_t begin, int64_t end) {
          for (int64_t c = begin; c < end; ++c) fold_channel(win, column + c * taps * positions, out + c * pixels);
        });
      }
    y.store(call);
  }

  WindowAttributes attributes_;
  std::vector<int64_t> output_padding_, output_shape_;
  int64_t groups_;
  MatrixProduct product_;
};

}  // namespace

std::vector<OpDef> ops_in_conv_transpose();
std::vector<OpDef> ops_in_conv_transpose() { return {{"", "ConvTranspose", 1, prepare<ConvTransposeKernel>}}; }

}  // namespace attune
