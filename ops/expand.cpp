// Expand and Tile: repeat along axes.
#include <fmt/format.h>

#include "ops/op.h"
#include "ops/support/copy.h"
#include "ops/support/packed_types.h"
#include "ops/support/prepare.h"

namespace attune {
namespace {

class ExpandKernel final : public Kernel {
 public:
  explicit ExpandKernel(const KernelContext&) {}

  void run(KernelCall& call) const override {
    const Shape asked = read_integers(call, 1);
    for (const int64_t size : asked)
      if (size < 0) fail_input(1, "sizes", asked.to_string());
    const Shape shape = broadcast(call.input(0).shape(), asked);
    if (run_in_bytes(*this, call, call.input(0))) return;
    if (shape.count() == call.input(0).count()) {
      const Datum taken = call.take(0);
      call.set_output(0, taken.tensor().reshaped(shape));
      return;
    }
    const Tensor& in = call.input(0);
    Tensor& out = call.output(0, in.type(), shape);
    const auto loop = broadcast_loop<2>(shape, {&in.shape(), &shape});
    dispatch_width(in.type(), [&]<class T>() { copy_strided(loop, elements<T>(in), mutable_elements<T>(out)); });
  }
  std::string implementation() const override { return "copy"; }
};

class TileKernel final : public Kernel {
 public:
  explicit TileKernel(const KernelContext&) {}

  void run(KernelCall& call) const override {
    const Tensor& in = call.input(0);
    if (run_in_bytes(*this, call, in)) return;
    const Shape repeats = read_integers(call, 1);
    if (repeats.rank() != in.rank())
      fail_input(1, fmt::format("{} repeats", in.rank()), fmt::format("{}", repeats.rank()));
    Shape shape = in.shape();
    for (size_t i = 0; i < shape.rank(); ++i) {
      if (repeats[i] < 0) fail_input(1, "repeats", repeats.to_string());
      shape[i] = checked_multiply(shape[i], repeats[i]);
    }
    Tensor& out = call.output(0, in.type(), shape);
    const Shape strides = contiguous_strides(in.shape()), out_strides = contiguous_strides(shape);
    Loop<2> loop;
    for (size_t i = 0; i < shape.rank(); ++i) {
      loop.add_axis(repeats[i], {0, in.dim(i) * out_strides[i]});
      loop.add_axis(in.dim(i), {strides[i], out_strides[i]});
    }
    dispatch_width(in.type(), [&]<class T>() { copy_strided(loop, elements<T>(in), mutable_elements<T>(out)); });
  }
  std::string implementation() const override { return "copy"; }
};

}  // namespace

std::vector<OpDef> ops_in_expand() {
  return {{"", "Expand", 8, prepare<ExpandKernel>}, {"", "Tile", 6, prepare<TileKernel>}};
}

}  // namespace attune
