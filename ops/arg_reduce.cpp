// ArgMax and ArgMin. The first NaN along the axis wins, as in numpy.
#include "ops/op.h"
#include "ops/support/elements.h"
#include "ops/support/half.h"
#include "ops/support/parallel.h"
#include "ops/support/prepare.h"
#include "ops/support/row_extreme.h"

namespace attune {
namespace {

template <bool kMax>
class ArgReduceKernel final : public Kernel {
 public:
  explicit ArgReduceKernel(const KernelContext& context)
      : axis_(context.node().attr_int("axis", 0)),
        keep_(context.node().attr_int("keepdims", 1) != 0),
        last_(context.node().attr_int("select_last_index", 0) != 0) {}

  void run(KernelCall& call) const override {
    const Tensor& in = call.input(0);
    const size_t axis = normalize_axis(axis_, in.rank());
    Shape shape = in.shape();
    const int64_t n = shape[axis];
    if (keep_) {
      shape[axis] = 1;
    } else {
      shape.erase(axis);
    }
    if (n == 0 && shape.count() > 0) fail_input(0, "elements along the axis", in.shape().to_string());
    Tensor& out = call.output(0, DataType::kInt64, shape);
    const int64_t inner = in.shape().count(axis + 1, in.rank());
    int64_t* y = out.mutable_data<int64_t>();
    dispatch<float, double, Float16, BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
             uint64_t>(in.type(), [&]<class T>() {
      const T* x = in.data<T>();
      parallel_for(out.count(), std::max<int64_t>(1, kParallelGrain / std::max<int64_t>(n, 1)),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i) y[i] = best(x + i / inner * n * inner + i % inner, n, inner);
                   });
    });
  }

 private:
  template <class T>
  int64_t best(const T* x, int64_t n, int64_t stride) const {
    using C = ComputeType<T>;
    if constexpr (std::is_same_v<T, C>) {
      if (stride == 1 && !last_) {
        const T extreme = row_extreme<kMax>(x, n, x[0]);
        if (extreme == extreme) return row_find(x, n, extreme);
      }
    }
    int64_t at = 0;
    C value = static_cast<C>(x[0]);
    for (int64_t k = 1; k < n; ++k) {
      if (value != value && !last_) return at;
      const C v = static_cast<C>(x[k * stride]);
      const bool better = kMax ? v > value : v < value;
      if (better || v != v || (last_ && v == value)) {
        value = v;
        at = k;
      }
    }
    return at;
  }

  int64_t axis_;
  bool keep_, last_;
};

}  // namespace

std::vector<OpDef> ops_in_arg_reduce() {
  return {{"", "ArgMax", 1, prepare<ArgReduceKernel<true>>}, {"", "ArgMin", 1, prepare<ArgReduceKernel<false>>}};
}

}  // namespace attune
