// Transpose.
#include <fmt/format.h>

#include "ops/op.h"
#include "ops/support/copy.h"
#include "ops/support/packed_types.h"
#include "ops/support/prepare.h"

namespace attune {
namespace {

class TransposeKernel final : public Kernel {
 public:
  explicit TransposeKernel(const KernelContext& context)
      : given_(context.node().has("perm")), permutation_(context.node().attr_ints("perm")) {}

  void run(KernelCall& call) const override {
    const Tensor& in = call.input(0);
    if (run_in_bytes(*this, call, in)) return;
    const Shape permutation = permutation_of(in.rank());
    const Shape strides = strides_of(in);
    Shape shape;
    shape.resize(in.rank());
    for (size_t i = 0; i < shape.rank(); ++i) shape[i] = in.dim(static_cast<size_t>(permutation[i]));
    if (in.contiguous() && keeps_order(in.shape(), permutation)) {
      const Datum taken = call.take(0);
      call.set_output(0, taken.tensor().reshaped(shape));
      return;
    }
    Tensor& out = call.output(0, in.type(), shape);
    const Shape out_strides = contiguous_strides(shape);
    Loop<2> loop;
    for (size_t i = 0; i < shape.rank(); ++i)
      loop.add_axis(shape[i], {strides[static_cast<size_t>(permutation[i])], out_strides[i]});
    dispatch_width(in.type(), [&]<class T>() { copy_strided(loop, elements<T>(in), mutable_elements<T>(out)); });
  }
  bool accepts_strided(size_t) const override { return true; }
  std::string implementation() const override { return "copy"; }

 private:
  // The attribute, or the reversed order. The attribute's axes don't count from the end.
  Shape permutation_of(size_t rank) const {
    Shape permutation;
    if (!given_) {
      for (size_t i = rank; i-- > 0;) permutation.push_back(static_cast<int64_t>(i));
      return permutation;
    }
    if (permutation_.rank() != rank)
      fail_input(0, fmt::format("rank {} (that of perm)", permutation_.rank()), fmt::format("rank {}", rank));
    for (const int64_t axis : permutation_)
      if (axis < 0) throw Error(Error::Kind::kInvalidModel, fmt::format("perm has axis {} for rank {}", axis, rank));
    return normalize_axes(permutation_, rank);
  }
  // True if only axes of size 1 move.
  static bool keeps_order(const Shape& shape, const Shape& permutation) {
    int64_t last = -1;
    for (const int64_t axis : permutation) {
      if (shape[static_cast<size_t>(axis)] == 1) continue;
      if (axis < last) return false;
      last = axis;
    }
    return true;
  }

  bool given_;
  Shape permutation_;
};

}  // namespace

std::vector<OpDef> ops_in_transpose() { return {{"", "Transpose", 1, prepare<TransposeKernel>}}; }

}  // namespace attune
