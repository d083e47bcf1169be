// Col2Im: columns of windows added up to images.
#include <fmt/format.h>

#include "ops/op.h"
#include "ops/support/float_tensor.h"
#include "ops/support/parallel_items.h"
#include "ops/support/prepare.h"
#include "ops/support/window.h"

namespace attune {
namespace {

// input (N, C * taps, positions), image_shape, block_shape.
class Col2ImKernel : public FloatKernel<Col2ImKernel> {
 public:
  explicit Col2ImKernel(const KernelContext& context) : attributes_(context.node()) {}

 private:
  friend FloatKernel<Col2ImKernel>;
  template <class T>
  void compute(KernelCall& call) const {
    const Tensor& x = call.input(0);
    expect_rank(x, 0, 3);
    const auto image = call.input(1).to_int64(), block = call.input(2).to_int64();
    if (image.empty() || image.size() != block.size())
      fail_input(2, fmt::format("{} sizes", image.size()), std::to_string(block.size()));
    const Window w = make_window(attributes_, Shape(std::span(image)), Shape(std::span(block)));
    const int64_t taps = w.kernel_count(), positions = w.out_count();
    if (x.dim(1) % taps != 0 || x.dim(2) != positions)
      fail_input(0, fmt::format("(batch, channels * {}, {})", taps, positions), x.shape().to_string());
    const int64_t channels = x.dim(1) / taps;
    Shape shape{x.dim(0), channels};
    for (const int64_t size : image) shape.push_back(size);
    const FloatView<T> in(x, call.pool());
    FloatResult<T> y(call, 0, x.type(), shape);
    parallel_items(x.dim(0) * channels, taps * positions, [&](int64_t begin, int64_t end) {
      std::fill(y.data() + begin * w.in_count(), y.data() + end * w.in_count(), T{0});
      for (int64_t i = begin; i < end; ++i)
        fold_channel(w, in.data() + i * taps * positions, y.data() + i * w.in_count());
    });
    y.store(call);
  }

  WindowAttributes attributes_;
};

}  // namespace

std::vector<OpDef> ops_in_col2im();
std::vector<OpDef> ops_in_col2im() { return {{"", "Col2Im", 18, prepare<Col2ImKernel>}}; }

}  // namespace attune
