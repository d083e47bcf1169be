// ScatterElements (and Scatter, its old name), ScatterND: write by indices into a copy, with reductions.
#include <fmt/format.h>

#include "ops/op.h"
#include "ops/support/elements.h"
#include "ops/support/half.h"
#include "ops/support/loop.h"
#include "ops/support/packed_types.h"
#include "ops/support/prepare.h"

namespace attune {
namespace {

enum class Reduction { kNone, kAdd, kMul, kMin, kMax };

Reduction reduction_of(const Node& node) {
  const std::string name = node.attr_string("reduction", "none");
  if (name == "none") return Reduction::kNone;
  if (name == "add") return Reduction::kAdd;
  if (name == "mul") return Reduction::kMul;
  if (name == "min") return Reduction::kMin;
  if (name == "max") return Reduction::kMax;
  throw Error(Error::Kind::kInvalidModel, fmt::format("reduction '{}' is not known", name));
}

template <class T>
T combine(Reduction reduction, T old_value, T update) {
  using C = ComputeType<T>;
  const auto a = static_cast<C>(old_value), b = static_cast<C>(update);
  switch (reduction) {
    case Reduction::kAdd:
      if constexpr (std::is_same_v<T, bool>)
        return a || b;
      else if constexpr (std::is_integral_v<T>)
        return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
      else
        return static_cast<T>(a + b);
    case Reduction::kMul:
      if constexpr (std::is_same_v<T, bool>)
        return a && b;
      else if constexpr (std::is_integral_v<T>)
        return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
      else
        return static_cast<T>(a * b);
    case Reduction::kMin:
      return b < a || b != b ? update : old_value;
    case Reduction::kMax:
      return a < b || b != b ? update : old_value;
    default:
      return update;
  }
}

// Calls visit(offset in data, offset in updates, n elements) for all updates.
template <class Visit>
void apply(Reduction reduction, const Tensor& updates, Tensor& out, Visit&& for_each_run) {
  if (reduction == Reduction::kNone) {
    dispatch_width(out.type(), [&]<class T>() {
      const T* from = elements<T>(updates);
      T* to = mutable_elements<T>(out);
      for_each_run([&](int64_t at, int64_t update, int64_t n) { std::copy_n(from + update, n, to + at); });
    });
    return;
  }
  dispatch<float, double, Float16, BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
           bool>(out.type(), [&]<class T>() {
    const T* from = updates.data<T>();
    T* to = out.mutable_data<T>();
    for_each_run([&](int64_t at, int64_t update, int64_t n) {
      for (int64_t i = 0; i < n; ++i) to[at + i] = combine(reduction, to[at + i], from[update + i]);
    });
  });
}

class ScatterElementsKernel final : public Kernel {
 public:
  explicit ScatterElementsKernel(const KernelContext& context)
      : axis_(context.node().attr_int("axis", 0)), reduction_(reduction_of(context.node())) {}

  void run(KernelCall& call) const override {
    const Tensor& indices = call.input(1);
    const Tensor& updates = call.input(2);
    if (reduction_ == Reduction::kNone && run_in_bytes(*this, call, updates)) return;
    expect_type(updates, 2, call.input(0).type());
    const Shape shape = call.input(0).shape();
    expect_rank(indices, 1, shape.rank());
    if (updates.shape() != indices.shape()) fail_input(2, indices.shape().to_string(), updates.shape().to_string());
    const size_t axis = normalize_axis(axis_, shape.rank());
    for (size_t i = 0; i < shape.rank(); ++i)
      if (i != axis && indices.dim(i) > shape[i])
        fail_input(1, fmt::format("at most size {} along axis {}", shape[i], i), indices.shape().to_string());

    Tensor out = take_or_copy(call, 0);
    const IndexReader index(indices, 1);
    const Shape strides = contiguous_strides(shape), index_strides = contiguous_strides(indices.shape());
    Loop<2> loop;
    for (size_t i = 0; i < shape.rank(); ++i)
      loop.add_axis(indices.dim(i), {i == axis ? 0 : strides[i], index_strides[i]});
    const int64_t step = loop.row_strides()[0], along = strides[axis], size = shape[axis];
    within("input 1", [&] {
      apply(reduction_, updates, out, [&](auto&& visit) {
        loop.rows(0, loop.count(), [&](const Loop<2>::Offsets& at, int64_t n) {
          for (int64_t i = 0; i < n; ++i)
            visit(at[0] + i * step + checked_index(index[at[1] + i], size) * along, at[1] + i, int64_t{1});
        });
      });
    });
    call.set_output(0, std::move(out));
  }

 private:
  int64_t axis_;
  Reduction reduction_;
};

class ScatterNdKernel final : public Kernel {
 public:
  explicit ScatterNdKernel(const KernelContext& context) : reduction_(reduction_of(context.node())) {}

  void run(KernelCall& call) const override {
    const Tensor& indices = call.input(1);
    const Tensor& updates = call.input(2);
    if (reduction_ == Reduction::kNone && run_in_bytes(*this, call, updates)) return;
    expect_type(updates, 2, call.input(0).type());
    const Shape shape = call.input(0).shape();
    if (indices.rank() == 0) fail_input(1, "rank 1 or more", "a scalar");
    const int64_t depth = indices.shape().back();
    if (depth > static_cast<int64_t>(shape.rank()))
      fail_input(1, fmt::format("at most {} indices in the last axis", shape.rank()), indices.shape().to_string());
    Shape expected = indices.shape().first(indices.rank() - 1);
    for (auto i = static_cast<size_t>(depth); i < shape.rank(); ++i) expected.push_back(shape[i]);
    if (updates.shape() != expected) fail_input(2, expected.to_string(), updates.shape().to_string());

    Tensor out = take_or_copy(call, 0);
    const IndexReader index(indices, 1);
    const Shape strides = contiguous_strides(shape);
    const int64_t inner = shape.count(static_cast<size_t>(depth), shape.rank());
    const int64_t n = indices.shape().count(0, indices.rank() - 1);
    within("input 1", [&] {
      apply(reduction_, updates, out, [&](auto&& visit) {
        for (int64_t i = 0; i < n; ++i) {
          int64_t at = 0;
          for (int64_t d = 0; d < depth; ++d)
            at += checked_index(index[i * depth + d], shape[static_cast<size_t>(d)]) * strides[static_cast<size_t>(d)];
          visit(at, i * inner, inner);
        }
      });
    });
    call.set_output(0, std::move(out));
  }

 private:
  Reduction reduction_;
};

}  // namespace

std::vector<OpDef> ops_in_scatter() {
  return {{"", "Scatter", 9, prepare<ScatterElementsKernel>},
          {"", "ScatterElements", 11, prepare<ScatterElementsKernel>},
          {"", "ScatterND", 11, prepare<ScatterNdKernel>}};
}

}  // namespace attune
