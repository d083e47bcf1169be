// ReduceSum, ReduceMean, ReduceMax, ReduceMin, ReduceProd, ReduceL1, ReduceL2, ReduceSumSquare, ReduceLogSum,
// ReduceLogSumExp. float16 and bfloat16 are accumulated in float.
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>

#include "ops/op.h"
#include "ops/support/elements.h"
#include "ops/support/half.h"
#include "ops/support/loop.h"
#include "ops/support/prepare.h"
#include "ops/support/row_extreme.h"

namespace attune {
namespace {

// A reduction of C: finish(combine(map(x0), combine(map(x1), ...)), count of elements).
struct SumReduction {
  template <class C>
  static C identity() {
    return 0;
  }
  template <class C>
  static C map(C x) {
    return x;
  }
  template <class C>
  static C combine(C a, C b) {
    if constexpr (std::is_integral_v<C>) {
      return static_cast<C>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    } else {
      return a + b;
    }
  }
  template <class C>
  static C finish(C x, int64_t) {
    return x;
  }
};
struct MeanReduction : SumReduction {
  template <class C>
  static C finish(C x, int64_t n) {
    if constexpr (std::is_integral_v<C>) {
      using Wide = std::common_type_t<C, int64_t>;
      return n == 0 ? C{0} : static_cast<C>(static_cast<Wide>(x) / static_cast<Wide>(n));
    } else {
      return x / static_cast<C>(n);
    }
  }
};
struct ProdReduction {
  template <class C>
  static C identity() {
    return 1;
  }
  template <class C>
  static C map(C x) {
    return x;
  }
  template <class C>
  static C combine(C a, C b) {
    if constexpr (std::is_integral_v<C>) {
      return static_cast<C>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    } else {
      return a * b;
    }
  }
  template <class C>
  static C finish(C x, int64_t) {
    return x;
  }
};
// NaN wins; of nothing: the smallest value there is.
struct MaxReduction {
  template <class C>
  static C identity() {
    return std::numeric_limits<C>::has_infinity ? -std::numeric_limits<C>::infinity()
                                                : std::numeric_limits<C>::lowest();
  }
  template <class C>
  static C map(C x) {
    return x;
  }
  template <class C>
  static C combine(C a, C b) {
    return a < b || b != b ? b : a;
  }
  template <class C>
  static C finish(C x, int64_t) {
    return x;
  }
};
struct MinReduction {
  template <class C>
  static C identity() {
    return std::numeric_limits<C>::has_infinity ? std::numeric_limits<C>::infinity() : std::numeric_limits<C>::max();
  }
  template <class C>
  static C map(C x) {
    return x;
  }
  template <class C>
  static C combine(C a, C b) {
    return b < a || b != b ? b : a;
  }
  template <class C>
  static C finish(C x, int64_t) {
    return x;
  }
};
struct SumSquareReduction : SumReduction {
  template <class C>
  static C map(C x) {
    return ProdReduction::combine(x, x);
  }
};
struct L1Reduction : SumReduction {
  template <class C>
  static C map(C x) {
    if constexpr (std::is_floating_point_v<C>) {
      return std::abs(x);
    } else {
      return x < 0 ? static_cast<C>(0 - static_cast<uint64_t>(x)) : x;
    }
  }
};
struct L2Reduction : SumSquareReduction {
  template <class C>
  static C finish(C x, int64_t) {
    return static_cast<C>(std::sqrt(static_cast<double>(x)));
  }
};
struct LogSumReduction : SumReduction {
  template <class C>
  static C finish(C x, int64_t) {
    return static_cast<C>(std::log(static_cast<double>(x)));
  }
};

template <class R, class C>
C reduce_row(const C* x, int64_t n) {
  if constexpr (std::is_same_v<R, MaxReduction>) return row_extreme<true>(x, n, R::template identity<C>());
  if constexpr (std::is_same_v<R, MinReduction>) return row_extreme<false>(x, n, R::template identity<C>());
  constexpr int64_t kLanes = 16;
  C total = R::template identity<C>();
  if (n >= kLanes) {
    std::array<C, kLanes> lanes;
    lanes.fill(total);
    for (; n >= kLanes; n -= kLanes, x += kLanes)
      for (size_t i = 0; i < kLanes; ++i) lanes[i] = R::combine(lanes[i], R::map(x[i]));
    for (const C lane : lanes) total = R::combine(total, lane);
  }
  for (int64_t i = 0; i < n; ++i) total = R::combine(total, R::map(x[i]));
  return total;
}

// Adds a row to one accumulator, or (out_stride 1) to as many as it has elements.
template <class R, class C>
void accumulate(const C* x, int64_t n, C* out, int64_t out_stride) {
  if (out_stride == 0) {
    *out = R::combine(*out, reduce_row<R>(x, n));
  } else {
    for (int64_t i = 0; i < n; ++i) out[i] = R::combine(out[i], R::map(x[i]));
  }
}

// Calls f(row as ComputeType, n, offset in the output, output stride) for all elements.
template <class T, class F>
void for_each_row(const Loop<2>& loop, int64_t begin, int64_t end, const T* in, F&& f) {
  const int64_t stride = loop.row_strides()[1];
  loop.rows(begin, end, [&](const Loop<2>::Offsets& at, int64_t n) {
    if constexpr (kIsHalf<T>) {
      constexpr int64_t kBlock = 512;
      std::array<float, kBlock> block;
      for (int64_t done = 0; done < n; done += kBlock) {
        const int64_t m = std::min(kBlock, n - done);
        convert(in + at[0] + done, block.data(), static_cast<size_t>(m));
        f(static_cast<const float*>(block.data()), m, at[1] + done * stride, stride);
      }
    } else {
      f(in + at[0], n, at[1], stride);
    }
  });
}

// What is reduced: the loop over the input with the offsets of the accumulators.
struct Reduction {
  Loop<2> loop;
  Shape shape;        // of the output
  int64_t count = 1;  // elements per accumulator

  // Splits the work where threads write to different accumulators: along a kept outermost axis.
  template <class F>
  void parallel(F&& f) const {
    const bool split = loop.rank() > 1 && loop.strides(0)[1] != 0;
    if (!split) {
      f(int64_t{0}, loop.count());
      return;
    }
    const int64_t slices = loop.size(0), each = loop.count() / std::max<int64_t>(slices, 1);
    parallel_for(slices, std::max<int64_t>(1, kParallelGrain / std::max<int64_t>(each, 1)),
                 [&](int64_t begin, int64_t end) { f(begin * each, end * each); });
  }
};

// Reduces all elements of `in` into `total`, without finishing.
template <class R, class T>
void reduce_into(const Reduction& r, const Tensor& in, ComputeType<T>* total, int64_t count) {
  using C = ComputeType<T>;
  std::fill_n(total, count, R::template identity<C>());
  r.parallel([&](int64_t begin, int64_t end) {
    for_each_row(r.loop, begin, end, in.data<T>(), [&](const C* row, int64_t m, int64_t at, int64_t stride) {
      accumulate<R>(row, m, total + at, stride);
    });
  });
}

template <class R, class T>
void reduce(const Reduction& r, const Tensor& in, Tensor& out, const BufferRef& memory) {
  using C = ComputeType<T>;
  T* y = out.mutable_data<T>();
  C* total = memory ? reinterpret_cast<C*>(memory->data()) : reinterpret_cast<C*>(y);
  const int64_t n = out.count();
  reduce_into<R, T>(r, in, total, n);
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(R::finish(total[i], r.count));
}

// log(sum(exp(x))) = m + log(sum(exp(x - m))) with m the largest x, in double.
template <class T>
void reduce_log_sum_exp(const Reduction& r, const Tensor& in, Tensor& out) {
  using C = ComputeType<T>;
  const auto n = static_cast<size_t>(out.count());
  std::vector<C> largest(n);
  std::vector<double> total(n, 0);
  reduce_into<MaxReduction, T>(r, in, largest.data(), out.count());
  const auto shift = [&](size_t i) { return std::isinf(largest[i]) ? 0.0 : static_cast<double>(largest[i]); };
  r.parallel([&](int64_t begin, int64_t end) {
    for_each_row(r.loop, begin, end, in.data<T>(), [&](const C* row, int64_t m, int64_t at, int64_t stride) {
      for (int64_t i = 0; i < m; ++i) {
        const auto to = static_cast<size_t>(at + i * stride);
        total[to] += std::exp(static_cast<double>(row[i]) - shift(to));
      }
    });
  });
  for (size_t i = 0; i < n; ++i)
    out.mutable_data<T>()[i] = static_cast<T>(static_cast<C>(std::log(total[i]) + shift(i)));
}

class ReduceKernel : public Kernel {
 public:
  explicit ReduceKernel(const KernelContext& context)
      : keep_(context.node().attr_int("keepdims", 1) != 0),
        noop_(context.node().attr_int("noop_with_empty_axes", 0) != 0) {
    if (context.node().has("axes")) axes_ = Shape(context.node().attr_ints("axes"));
  }

  void run(KernelCall& call) const override {
    const Tensor& in = call.input(0);
    Shape axes = call.has(1) ? read_integers(call, 1) : axes_.value_or(Shape());
    axes = normalize_axes(axes, in.rank());
    std::array<bool, Shape::kMaxRank> reduced;
    reduced.fill(axes.empty() && !noop_);
    for (const int64_t axis : axes) reduced[static_cast<size_t>(axis)] = true;

    Reduction r;
    Shape strides = in.shape();
    int64_t stride = 1;
    for (size_t i = in.rank(); i-- > 0;) {
      strides[i] = reduced[i] ? 0 : stride;
      (reduced[i] ? r.count : stride) *= in.dim(i);
    }
    const Shape in_strides = contiguous_strides(in.shape());
    for (size_t i = 0; i < in.rank(); ++i) {
      r.loop.add_axis(in.dim(i), {in_strides[i], strides[i]});
      if (!reduced[i]) {
        r.shape.push_back(in.dim(i));
      } else if (keep_) {
        r.shape.push_back(1);
      }
    }
    compute(call, r, in, call.output(0, in.type(), r.shape));
  }
  std::string implementation() const override { return "reduce"; }

 protected:
  virtual void compute(KernelCall& call, const Reduction& r, const Tensor& in, Tensor& out) const = 0;

 private:
  bool keep_, noop_;
  std::optional<Shape> axes_;
};

template <class R, class... Ts>
class SimpleReduceKernel final : public ReduceKernel {
 public:
  using ReduceKernel::ReduceKernel;

 private:
  void compute(KernelCall& call, const Reduction& r, const Tensor& in, Tensor& out) const override {
    dispatch<Ts...>(in.type(), [&]<class T>() {
      BufferRef memory;
      if constexpr (kIsHalf<T>) memory = call.scratch(static_cast<size_t>(out.count()) * sizeof(float));
      reduce<R, T>(r, in, out, memory);
    });
  }
};

class LogSumExpKernel final : public ReduceKernel {
 public:
  using ReduceKernel::ReduceKernel;

 private:
  void compute(KernelCall&, const Reduction& r, const Tensor& in, Tensor& out) const override {
    dispatch<float, double, Float16, BFloat16>(in.type(), [&]<class T>() { reduce_log_sum_exp<T>(r, in, out); });
  }
};

template <class R>
constexpr auto prepare_numeric =
    prepare<SimpleReduceKernel<R, float, double, Float16, BFloat16, int32_t, int64_t, uint32_t, uint64_t>>;
template <class R>
constexpr auto prepare_ordered =
    prepare<SimpleReduceKernel<R, float, double, Float16, BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t,
                               uint16_t, uint32_t, uint64_t, bool>>;

}  // namespace

std::vector<OpDef> ops_in_reduce() {
  return {
      {"", "ReduceSum", 1, prepare_numeric<SumReduction>},
      {"", "ReduceMean", 1, prepare_numeric<MeanReduction>},
      {"", "ReduceProd", 1, prepare_numeric<ProdReduction>},
      {"", "ReduceMax", 1, prepare_ordered<MaxReduction>},
      {"", "ReduceMin", 1, prepare_ordered<MinReduction>},
      {"", "ReduceL1", 1, prepare_numeric<L1Reduction>},
      {"", "ReduceL2", 1, prepare_numeric<L2Reduction>},
      {"", "ReduceSumSquare", 1, prepare_numeric<SumSquareReduction>},
      {"", "ReduceLogSum", 1, prepare_numeric<LogSumReduction>},
      {"", "ReduceLogSumExp", 1, prepare<LogSumExpKernel>},
  };
}

}  // namespace attune
