// CumSum and CumProd along an axis.
#include <type_traits>

#include "ops/op.h"
#include "ops/support/elements.h"
#include "ops/support/half.h"
#include "ops/support/parallel.h"
#include "ops/support/prepare.h"

namespace attune {
namespace {

struct Sum {
  template <class T>
  static T identity() {
    return 0;
  }
  template <class T>
  static T combine(T a, T b) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    else
      return a + b;
  }
};
struct Product {
  template <class T>
  static T identity() {
    return 1;
  }
  template <class T>
  static T combine(T a, T b) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    else
      return a * b;
  }
};

template <class F>
class CumulativeKernel final : public Kernel {
 public:
  explicit CumulativeKernel(const KernelContext& context)
      : exclusive_(context.node().attr_int("exclusive", 0) != 0),
        reverse_(context.node().attr_int("reverse", 0) != 0) {}

  void run(KernelCall& call) const override {
    const Tensor& in = call.input(0);
    const size_t axis = normalize_axis(read_integer(call, 1), in.rank());
    Tensor& out = call.output(0, in.type(), in.shape());
    const int64_t n = in.dim(axis), inner = in.shape().count(axis + 1, in.rank());
    const int64_t lines = in.shape().count(0, axis) * inner;
    dispatch<float, double, Float16, BFloat16, int32_t, int64_t, uint32_t, uint64_t>(in.type(), [&]<class T>() {
      const T* x = in.data<T>();
      T* y = out.mutable_data<T>();
      parallel_for(lines, std::max<int64_t>(1, kParallelGrain / std::max<int64_t>(n, 1)),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i) {
                       const int64_t first = i / inner * n * inner + i % inner;
                       accumulate(x + first, y + first, n, inner);
                     }
                   });
    });
  }

 private:
  template <class T>
  void accumulate(const T* x, T* y, int64_t n, int64_t stride) const {
    using C = ComputeType<T>;
    C total = F::template identity<C>();
    for (int64_t k = 0; k < n; ++k) {
      const int64_t at = (reverse_ ? n - 1 - k : k) * stride;
      const C before = total;
      total = F::combine(total, static_cast<C>(x[at]));
      y[at] = static_cast<T>(exclusive_ ? before : total);
    }
  }
  bool exclusive_, reverse_;
};

}  // namespace

std::vector<OpDef> ops_in_cumulative() {
  return {{"", "CumSum", 11, prepare<CumulativeKernel<Sum>>}, {"", "CumProd", 26, prepare<CumulativeKernel<Product>>}};
}

}  // namespace attune
