// Slice: begins, ends and steps per axis. A slice that is one block of memory is a view.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ops/op.h"
#include "ops/support/copy.h"
#include "ops/support/packed_types.h"
#include "ops/support/prepare.h"
#include "ops/support/view.h"

namespace attune {
namespace {

struct Range {
  int64_t begin = 0, step = 1, count = 0;
};

// numpy's start:end:step along an axis of `size`; step isn't 0.
Range clamp_range(int64_t start, int64_t end, int64_t step, int64_t size) {
  const auto from_end = [size](int64_t i) { return i < 0 ? i + size : i; };
  // start + size can't overflow: start is negative there.
  if (step > 0) {
    start = std::clamp(from_end(start), int64_t{0}, size);
    end = std::clamp(from_end(end), int64_t{0}, size);
    return {start, step, end > start ? (end - start - 1) / step + 1 : 0};
  }
  start = std::clamp(from_end(start), int64_t{-1}, size - 1);
  end = std::clamp(from_end(end), int64_t{-1}, size - 1);
  if (start <= end) return {0, step, 0};
  // -(step + 1) + 1 would overflow for the smallest step only as unsigned magnitude fits.
  const uint64_t magnitude = 0 - static_cast<uint64_t>(step);
  return {start, step, static_cast<int64_t>(static_cast<uint64_t>(start - end - 1) / magnitude) + 1};
}

class SliceKernel final : public Kernel {
 public:
  explicit SliceKernel(const KernelContext& context) {
    const Node& node = context.node();
    if (!node.has("starts")) return;  // attributes until opset 9
    starts_ = Shape(node.attr_ints("starts"));
    ends_ = Shape(node.attr_ints("ends"));
    if (node.has("axes")) axes_ = Shape(node.attr_ints("axes"));
  }

  void run(KernelCall& call) const override {
    const Tensor& in = call.input(0);
    if (run_in_bytes(*this, call, in)) return;
    std::array<Range, Shape::kMaxRank> ranges;
    for (size_t i = 0; i < in.rank(); ++i) ranges[i] = {0, 1, in.dim(i)};
    read_ranges(call, in.shape(), ranges);

    Shape shape = in.shape(), strides = strides_of(in);
    int64_t offset = 0;
    for (size_t i = 0; i < in.rank(); ++i) {
      shape[i] = ranges[i].count;
      if (shape[i] > 0) offset += ranges[i].begin * strides[i];
      if (shape[i] > 1) strides[i] *= ranges[i].step;
    }
    if (auto view = contiguous_view(in, shape, strides, offset)) {
      call.set_output(0, std::move(*view));
      return;
    }
    Tensor& out = call.output(0, in.type(), shape);
    const Shape out_strides = contiguous_strides(shape);
    Loop<2> loop;
    for (size_t i = 0; i < shape.rank(); ++i) loop.add_axis(shape[i], {strides[i], out_strides[i]});
    dispatch_width(in.type(),
                   [&]<class T>() { copy_strided(loop, elements<T>(in) + offset, mutable_elements<T>(out)); });
  }
  bool accepts_strided(size_t input) const override { return input == 0; }
  std::string implementation() const override { return "copy"; }

 private:
  void read_ranges(const KernelCall& call, const Shape& shape, std::array<Range, Shape::kMaxRank>& ranges) const {
    const Shape starts = starts_ ? *starts_ : read_integers(call, 1);
    const Shape ends = starts_ ? ends_ : read_integers(call, 2);
    const size_t n = starts.rank();
    const auto optional = [&](size_t input, const char* what) -> std::optional<Shape> {
      if (!call.has(input)) return std::nullopt;
      const Shape values = read_integers(call, input);
      if (values.rank() != n) fail_input(input, fmt::format("{} {}", n, what), fmt::format("{}", values.rank()));
      return values;
    };
    if (ends.rank() != n) fail_input(2, fmt::format("{} ends", n), fmt::format("{}", ends.rank()));
    const auto given = starts_ ? axes_ : optional(3, "axes");
    const auto steps = starts_ ? std::nullopt : optional(4, "steps");
    if (given && given->rank() != n) fail_input(3, fmt::format("{} axes", n), fmt::format("{}", given->rank()));
    if (!given && n > shape.rank()) fail_input(1, fmt::format("at most {} starts", shape.rank()), fmt::format("{}", n));
    const Shape axes = given ? normalize_axes(*given, shape.rank()) : Shape();
    for (size_t i = 0; i < n; ++i) {
      const size_t axis = given ? static_cast<size_t>(axes[i]) : i;
      const int64_t step = steps ? (*steps)[i] : 1;
      if (step == 0)
        throw Error(Error::Kind::kInvalidArgument, fmt::format("input 4: a step of 0 along axis {}", axis));
      ranges[axis] = clamp_range(starts[i], ends[i], step, shape[axis]);
    }
  }

  std::optional<Shape> starts_, axes_;
  Shape ends_;
};

}  // namespace

std::vector<OpDef> ops_in_slice() { return {{"", "Slice", 1, prepare<SliceKernel>}}; }

}  // namespace attune
