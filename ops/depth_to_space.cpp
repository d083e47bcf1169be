// DepthToSpace and SpaceToDepth: blocks of pixels to channels and back, for (N, C, H, W).
#include <fmt/format.h>

#include "ops/op.h"
#include "ops/support/copy.h"
#include "ops/support/packed_types.h"
#include "ops/support/prepare.h"

namespace attune {
namespace {

// The six axes (n, channel, row of the block, column of the block, row, column) of a tensor whose depth is
// (channel, block) if `channel_first`, else (block, channel).
std::array<int64_t, 6> depth_strides(int64_t channels, int64_t block, int64_t height, int64_t width,
                                     bool channel_first) {
  const int64_t plane = height * width, blocks = block * block;
  const int64_t block_stride = channel_first ? plane : channels * plane;
  return {
      channels * blocks * plane, channel_first ? blocks * plane : plane, block * block_stride, block_stride, width, 1};
}
// The same six axes of the tensor with pixels (row * block + row of the block, ...).
std::array<int64_t, 6> space_strides(int64_t channels, int64_t block, int64_t height, int64_t width) {
  const int64_t row = width * block, plane = height * block * row;
  return {channels * plane, plane, row, 1, block * row, block};
}

template <bool kToSpace>
class BlockKernel final : public Kernel {
 public:
  explicit BlockKernel(const KernelContext& context)
      : block_(context.node().attr_int("blocksize", 0)),
        channel_first_(context.node().attr_string("mode", "DCR") == "CRD") {
    if (block_ < 1 || block_ > (1 << 20)) throw Error(Error::Kind::kInvalidModel, fmt::format("blocksize {}", block_));
  }

  void run(KernelCall& call) const override {
    const Tensor& in = call.input(0);
    if (run_in_bytes(*this, call, in)) return;
    expect_rank(in, 0, 4);
    const int64_t blocks = block_ * block_;
    const Shape& s = in.shape();
    const bool fits = kToSpace ? s[1] % blocks == 0 : s[2] % block_ == 0 && s[3] % block_ == 0;
    if (!fits) fail_input(0, fmt::format("sizes that blocks of {} divide", block_), s.to_string());
    const int64_t channels = kToSpace ? s[1] / blocks : s[1];
    const int64_t height = kToSpace ? s[2] : s[2] / block_, width = kToSpace ? s[3] : s[3] / block_;
    const Shape shape = kToSpace ? Shape{s[0], channels, height * block_, width * block_}
                                 : Shape{s[0], channels * blocks, height, width};
    Tensor& out = call.output(0, in.type(), shape);
    const auto depth = depth_strides(channels, block_, height, width, channel_first_);
    const auto space = space_strides(channels, block_, height, width);
    const std::array<int64_t, 6> sizes = {s[0], channels, block_, block_, height, width};
    // In the order of the output's axes.
    constexpr std::array<size_t, 6> kSpaceOrder = {0, 1, 4, 2, 5, 3};
    const std::array<size_t, 6> depth_order =
        channel_first_ ? std::array<size_t, 6>{0, 1, 2, 3, 4, 5} : std::array<size_t, 6>{0, 2, 3, 1, 4, 5};
    Loop<2> loop;
    for (const size_t axis : kToSpace ? kSpaceOrder : depth_order)
      loop.add_axis(sizes[axis], {(kToSpace ? depth : space)[axis], (kToSpace ? space : depth)[axis]});
    dispatch_width(in.type(), [&]<class T>() { copy_strided(loop, elements<T>(in), mutable_elements<T>(out)); });
  }
  std::string implementation() const override { return "copy"; }

 private:
  int64_t block_;
  bool channel_first_;
};

}  // namespace

std::vector<OpDef> ops_in_depth_to_space() {
  return {{"", "DepthToSpace", 1, prepare<BlockKernel<true>>}, {"", "SpaceToDepth", 1, prepare<BlockKernel<false>>}};
}

}  // namespace attune
