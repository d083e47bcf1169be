// Pad: constant, edge, reflect and wrap; negative pads crop.
#include <fmt/format.h>

#include "ops/op.h"
#include "ops/support/copy.h"
#include "ops/support/packed_types.h"
#include "ops/support/prepare.h"

namespace attune {
namespace {

enum class Mode { kConstant, kEdge, kReflect, kWrap };

Mode mode_of(const Node& node) {
  const std::string name = node.attr_string("mode", "constant");
  if (name == "constant") return Mode::kConstant;
  if (name == "edge") return Mode::kEdge;
  if (name == "reflect") return Mode::kReflect;
  if (name == "wrap") return Mode::kWrap;
  throw Error(Error::Kind::kInvalidModel, fmt::format("mode '{}' is not known", name));
}

// The element of a line of `size` that stands at `at`, which may lie outside.
int64_t source(Mode mode, int64_t at, int64_t size) {
  if (at >= 0 && at < size) return at;
  if (mode == Mode::kEdge) return at < 0 ? 0 : size - 1;
  const int64_t period = mode == Mode::kWrap ? size : std::max<int64_t>(1, 2 * (size - 1));
  const int64_t phase = (at % period + period) % period;
  return phase < size ? phase : period - phase;
}

class PadKernel final : public Kernel {
 public:
  explicit PadKernel(const KernelContext& context)
      : mode_(mode_of(context.node())), value_(context.node().attr_float("value", 0)) {
    pads_ = context.node().attr_ints(context.node().has("paddings") ? "paddings" : "pads");
  }

  void run(KernelCall& call) const override {
    const Tensor& in = call.input(0);
    if (run_in_bytes(*this, call, in)) return;
    Shape before, after;
    read_pads(call, in.rank(), before, after);
    Shape shape = in.shape();
    for (size_t i = 0; i < shape.rank(); ++i) {
      if (__builtin_add_overflow(shape[i], before[i], &shape[i]) ||
          __builtin_add_overflow(shape[i], after[i], &shape[i]))
        throw Error(Error::Kind::kLimit, fmt::format("pads of {} and {}", before[i], after[i]));
      if (before[i] < -in.dim(i) || after[i] < -in.dim(i) || shape[i] < 0)
        throw Error(Error::Kind::kInvalidArgument,
                    fmt::format("pads {} and {} take more than axis {} has ({})", before[i], after[i], i, in.dim(i)));
      if (in.dim(i) == 0 && shape[i] > 0 && mode_ != Mode::kConstant)
        fail_input(0, fmt::format("elements along axis {}", i), in.shape().to_string());
    }
    Tensor& out = call.output(0, in.type(), shape);
    dispatch_width(in.type(), [&]<class T>() {
      if (mode_ == Mode::kConstant) {
        pad_constant<T>(in, before, constant<T>(call, in.type()), out);
      } else {
        pad_mirrored<T>(in, before, out);
      }
    });
  }
  std::string implementation() const override { return "copy"; }

 private:
  // Pads per axis, from input 1 (with axes as input 3) or the attribute.
  void read_pads(const KernelCall& call, size_t rank, Shape& before, Shape& after) const {
    before.resize(rank, 0);
    after.resize(rank, 0);
    const std::vector<int64_t> pads = call.has(1) ? call.input(1).to_int64() : pads_;
    Shape axes;
    if (call.has(3)) {
      axes = normalize_axes(read_integers(call, 3), rank);
    } else {
      for (size_t i = 0; i < rank; ++i) axes.push_back(static_cast<int64_t>(i));
    }
    if (pads.size() != 2 * axes.rank())
      fail_input(1, fmt::format("{} pads", 2 * axes.rank()), fmt::format("{}", pads.size()));
    for (size_t i = 0; i < axes.rank(); ++i) {
      before[static_cast<size_t>(axes[i])] = pads[i];
      after[static_cast<size_t>(axes[i])] = pads[axes.rank() + i];
    }
  }

  template <class T>
  T constant(const KernelCall& call, DataType type) const {
    if (const Tensor* t = call.optional_input(2)) {
      expect_type(*t, 2, type);
      if (t->count() != 1) fail_input(2, "a scalar", t->shape().to_string());
      return elements<T>(*t)[0];
    }
    if constexpr (std::is_same_v<T, uint32_t>) {
      if (type == DataType::kFloat) return std::bit_cast<T>(value_);
    } else if constexpr (std::is_same_v<T, uint64_t>) {
      if (type == DataType::kDouble) return std::bit_cast<T>(double{value_});
    } else if constexpr (std::is_same_v<T, uint16_t>) {
      if (type == DataType::kFloat16) return Float16(value_).bits;
    }
    return T{};
  }

  template <class T>
  static void pad_constant(const Tensor& in, const Shape& before, const T& value, Tensor& out) {
    T* to = mutable_elements<T>(out);
    std::fill_n(to, out.count(), value);
    const Shape strides = contiguous_strides(in.shape()), out_strides = contiguous_strides(out.shape());
    Loop<2> loop;
    int64_t from_offset = 0, to_offset = 0;
    for (size_t i = 0; i < in.rank(); ++i) {
      const int64_t begin = std::max<int64_t>(0, -before[i]);  // first element that is kept
      const int64_t at = std::max<int64_t>(0, before[i]);
      const int64_t n = std::min(in.dim(i) - begin, out.dim(i) - at);
      if (n <= 0) return;
      from_offset += begin * strides[i];
      to_offset += at * out_strides[i];
      loop.add_axis(n, {strides[i], out_strides[i]});
    }
    copy_strided(loop, elements<T>(in) + from_offset, to + to_offset);
  }

  template <class T>
  void pad_mirrored(const Tensor& in, const Shape& before, Tensor& out) const {
    const Shape& shape = out.shape();
    const Shape strides = contiguous_strides(in.shape());
    const T* from = elements<T>(in);
    T* to = mutable_elements<T>(out);
    Shape index;
    index.resize(shape.rank(), 0);
    for (int64_t i = 0; i < out.count(); ++i) {
      int64_t offset = 0;
      for (size_t d = 0; d < shape.rank(); ++d) offset += source(mode_, index[d] - before[d], in.dim(d)) * strides[d];
      to[i] = from[offset];
      for (size_t d = shape.rank(); d-- > 0;) {
        if (++index[d] < shape[d]) break;
        index[d] = 0;
      }
    }
  }

  Mode mode_;
  float value_;
  std::vector<int64_t> pads_;
};

}  // namespace

std::vector<OpDef> ops_in_pad() { return {{"", "Pad", 1, prepare<PadKernel>}}; }

}  // namespace attune
