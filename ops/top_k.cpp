// TopK: the k largest or smallest along an axis, in order; ties by index. NaN counts as the largest, as in numpy.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ops/op.h"
#include "ops/support/elements.h"
#include "ops/support/half.h"
#include "ops/support/parallel.h"
#include "ops/support/prepare.h"

namespace attune {
namespace {

class TopKKernel final : public Kernel {
 public:
  explicit TopKKernel(const KernelContext& context)
      : axis_(context.node().attr_int("axis", -1)),
        k_(context.node().attr_int("k", -1)),
        largest_(context.node().attr_int("largest", 1) != 0) {}

  void run(KernelCall& call) const override {
    const Tensor& in = call.input(0);
    const size_t axis = normalize_axis(axis_, in.rank());
    const int64_t k = call.has(1) ? read_integer(call, 1) : k_, n = in.dim(axis);
    if (k < 0 || k > n) fail_input(1, fmt::format("k from 0 to {}", n), fmt::format("{}", k));
    Shape shape = in.shape();
    shape[axis] = k;
    Tensor& values = call.output(0, in.type(), shape);
    Tensor& indices = call.output(1, DataType::kInt64, shape);
    const int64_t inner = shape.count(axis + 1, shape.rank()), lines = shape.count(0, axis) * inner;
    if (k == 0 || lines == 0) return;
    const BufferRef memory = call.scratch(static_cast<size_t>(lines * n) * sizeof(int64_t));
    auto* order = reinterpret_cast<int64_t*>(memory->data());
    dispatch<float, double, Float16, BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
             uint64_t>(in.type(), [&]<class T>() {
      parallel_for(lines, std::max<int64_t>(1, kParallelGrain / (4 * n)), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t outer = i / inner, column = i % inner;
          select(in.data<T>() + outer * n * inner + column, order + i * n, {n, k, inner},
                 values.mutable_data<T>() + outer * k * inner + column,
                 indices.mutable_data<int64_t>() + outer * k * inner + column);
        }
      });
    });
  }

 private:
  struct Line {
    int64_t n, k, stride;
  };

  template <class T>
  void select(const T* x, int64_t* order, const Line& line, T* values, int64_t* indices) const {
    const auto before = [&](int64_t a, int64_t b) {
      const auto u = static_cast<ComputeType<T>>(x[a * line.stride]),
                 v = static_cast<ComputeType<T>>(x[b * line.stride]);
      const bool u_nan = u != u, v_nan = v != v;
      if (u_nan != v_nan) return largest_ == u_nan;
      if (u == v || u_nan) return a < b;
      return largest_ ? u > v : u < v;
    };
    constexpr int64_t kFew = 32;
    if (line.k <= kFew && line.k * 8 <= line.n) {
      insert_best(x, order, line, before);
    } else {
      std::iota(order, order + line.n, int64_t{0});
      if (line.k < line.n) std::nth_element(order, order + line.k - 1, order + line.n, before);
      std::sort(order, order + line.k, before);
    }
    for (int64_t i = 0; i < line.k; ++i) {
      values[i * line.stride] = x[order[i] * line.stride];
      indices[i * line.stride] = order[i];
    }
  }

  // Keeps the best k seen in order: nearly all elements are compared once, with the last of them.
  template <class T, class Before>
  void insert_best(const T* x, int64_t* order, const Line& line, Before&& before) const {
    using C = ComputeType<T>;
    int64_t size = 0;
    C last{};
    for (int64_t i = 0; i < line.n; ++i) {
      const C value = static_cast<C>(x[i * line.stride]);
      if (size == line.k && (largest_ ? value <= last : value >= last)) continue;
      if (size == line.k && !before(i, order[size - 1])) continue;
      if (size < line.k) ++size;
      int64_t at = size - 1;
      for (; at > 0 && before(i, order[at - 1]); --at) order[at] = order[at - 1];
      order[at] = i;
      last = static_cast<C>(x[order[size - 1] * line.stride]);
    }
  }

  int64_t axis_, k_;
  bool largest_;
};

}  // namespace

std::vector<OpDef> ops_in_top_k() { return {{"", "TopK", 1, prepare<TopKKernel>}}; }

}  // namespace attune
