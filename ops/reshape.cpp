// Reshape, Flatten, Squeeze, Unsqueeze: another shape for the same memory.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ops/op.h"
#include "ops/support/elements.h"
#include "ops/support/prepare.h"

namespace attune {
namespace {

void alias(KernelCall& call, const Shape& shape) {
  const Datum taken = call.take(0);
  call.set_output(0, taken.tensor().reshaped(shape));
}

// The axes of Squeeze and Unsqueeze: input 1 (from opset 13 on), else the attribute.
class AxesKernel : public Kernel {
 public:
  explicit AxesKernel(const KernelContext& context) {
    if (context.node().has("axes")) axes_ = Shape(context.node().attr_ints("axes"));
  }
  std::string implementation() const override { return "alias"; }

 protected:
  std::optional<Shape> axes(const KernelCall& call) const { return call.has(1) ? read_integers(call, 1) : axes_; }

 private:
  std::optional<Shape> axes_;
};

class SqueezeKernel final : public AxesKernel {
 public:
  using AxesKernel::AxesKernel;
  void run(KernelCall& call) const override {
    const Shape from = call.input(0).shape();
    const auto given = axes(call);
    const Shape removed = given ? normalize_axes(*given, from.rank()) : Shape();
    Shape shape;
    for (size_t i = 0; i < from.rank(); ++i) {
      const bool named = std::find(removed.begin(), removed.end(), static_cast<int64_t>(i)) != removed.end();
      if (named && from[i] != 1)
        throw Error(Error::Kind::kInvalidArgument,
                    fmt::format("input 0: axis {} of shape {} isn't 1", i, from.to_string()));
      if (!named && (given || from[i] != 1)) shape.push_back(from[i]);
    }
    alias(call, shape);
  }
};

class UnsqueezeKernel final : public AxesKernel {
 public:
  using AxesKernel::AxesKernel;
  void run(KernelCall& call) const override {
    const Shape from = call.input(0).shape();
    const auto given = axes(call);
    if (!given) throw Error(Error::Kind::kInvalidArgument, "axes are required");
    const size_t rank = from.rank() + given->rank();
    const Shape added = normalize_axes(*given, rank);
    Shape shape;
    for (size_t i = 0, next = 0; i < rank; ++i) {
      const bool is_new = std::find(added.begin(), added.end(), static_cast<int64_t>(i)) != added.end();
      shape.push_back(is_new ? 1 : from[next++]);
    }
    alias(call, shape);
  }
};

class FlattenKernel final : public Kernel {
 public:
  explicit FlattenKernel(const KernelContext& context) : axis_(context.node().attr_int("axis", 1)) {}
  void run(KernelCall& call) const override {
    const Shape from = call.input(0).shape();
    const auto rank = static_cast<int64_t>(from.rank());
    if (axis_ < -rank || axis_ > rank)
      throw Error(Error::Kind::kInvalidArgument, fmt::format("axis {} is outside [-{}, {}]", axis_, rank, rank));
    const auto axis = static_cast<size_t>(axis_ < 0 ? axis_ + rank : axis_);
    alias(call, {from.count(0, axis), from.count(axis, from.rank())});
  }
  std::string implementation() const override { return "alias"; }

 private:
  int64_t axis_;
};

class ReshapeKernel final : public Kernel {
 public:
  explicit ReshapeKernel(const KernelContext& context) : allow_zero_(context.node().attr_int("allowzero", 0) != 0) {
    if (context.node().has("shape")) target_ = Shape(context.node().attr_ints("shape"));  // opset 1
  }

  void run(KernelCall& call) const override {
    const Shape from = call.input(0).shape();
    alias(call, resolve(from, target_ ? *target_ : read_integers(call, 1)));
  }
  std::string implementation() const override { return "alias"; }

 private:
  // 0 copies a size (unless allowzero), one -1 takes what is left.
  Shape resolve(const Shape& from, Shape to) const {
    const auto fail = [&] {
      throw Error(Error::Kind::kInvalidArgument,
                  fmt::format("shape {} can't become {}", from.to_string(), to.to_string()));
    };
    const Shape asked = to;
    size_t open = to.rank();
    int64_t known = 1;
    for (size_t i = 0; i < to.rank(); ++i) {
      if (to[i] == 0 && !allow_zero_) {
        if (i >= from.rank()) fail();
        to[i] = from[i];
      }
      if (to[i] == -1 && open == to.rank()) {
        open = i;
      } else if (to[i] < 0 || __builtin_mul_overflow(known, to[i], &known)) {
        fail();
      }
    }
    const int64_t count = from.count();
    if (open < to.rank()) {
      if (known == 0 || count % known != 0) {
        to = asked;
        fail();
      }
      to[open] = count / known;
    } else if (known != count) {
      fail();
    }
    return to;
  }

  bool allow_zero_;
  std::optional<Shape> target_;
};

}  // namespace

std::vector<OpDef> ops_in_reshape() {
  return {{"", "Reshape", 1, prepare<ReshapeKernel>},
          {"", "Flatten", 1, prepare<FlattenKernel>},
          {"", "Squeeze", 1, prepare<SqueezeKernel>},
          {"", "Unsqueeze", 1, prepare<UnsqueezeKernel>}};
}

}  // namespace attune
