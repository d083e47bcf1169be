// Range: start, start + delta, ... before limit.
#include <cmath>
#include <type_traits>

#include "ops/op.h"
#include "ops/support/elements.h"
#include "ops/support/half.h"
#include "ops/support/prepare.h"

namespace attune {
namespace {

// max(ceil((limit - start) / delta), 0). Throws Error(kLimit) beyond int64.
template <class T>
int64_t range_count(T start, T limit, T delta) {
  if constexpr (std::is_floating_point_v<T>) {
    const double count = std::ceil((double{limit} - double{start}) / double{delta});
    if (!(count < 0x1p62)) throw Error(Error::Kind::kLimit, "a range of more than 2^62 elements");
    return count > 0 ? static_cast<int64_t>(count) : 0;
  } else {
    if (delta > 0 ? start >= limit : start <= limit) return 0;
    // Differences of int64 fit uint64.
    const auto wide = [](T x) { return static_cast<uint64_t>(static_cast<int64_t>(x)); };
    const uint64_t distance = delta > 0 ? wide(limit) - wide(start) : wide(start) - wide(limit);
    const uint64_t step = delta > 0 ? wide(delta) : 0 - wide(delta);
    const uint64_t count = (distance - 1) / step + 1;
    if (count > uint64_t{1} << 62) throw Error(Error::Kind::kLimit, "a range of more than 2^62 elements");
    return static_cast<int64_t>(count);
  }
}

class RangeKernel final : public Kernel {
 public:
  explicit RangeKernel(const KernelContext&) {}

  void run(KernelCall& call) const override {
    const DataType type = call.input(0).type();
    dispatch<int64_t, float, int32_t, int16_t, double, Float16, BFloat16>(type,
                                                                          [&]<class T>() { fill<T>(call, type); });
  }

 private:
  template <class T>
  static ComputeType<T> scalar(const KernelCall& call, size_t input) {
    const Tensor& t = call.input(input);
    expect_type(t, input, kDataTypeOf<T>);
    if (t.count() != 1) fail_input(input, "a scalar", t.shape().to_string());
    return static_cast<ComputeType<T>>(t.data<T>()[0]);
  }

  template <class C>
  static C element(C start, C delta, int64_t i) {
    if constexpr (std::is_integral_v<C>) {  // the product may wrap around where the sum fits
      const auto wrapped = static_cast<uint64_t>(start) + static_cast<uint64_t>(i) * static_cast<uint64_t>(delta);
      return static_cast<C>(wrapped);
    } else {
      return start + static_cast<C>(i) * delta;
    }
  }

  template <class T>
  static void fill(KernelCall& call, DataType type) {
    using C = ComputeType<T>;
    const C start = scalar<T>(call, 0), limit = scalar<T>(call, 1), delta = scalar<T>(call, 2);
    if (delta == 0) fail_input(2, "a delta other than 0", "0");
    const int64_t n = range_count(start, limit, delta);
    T* out = call.output(0, type, {n}).template mutable_data<T>();
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(element(start, delta, i));
  }
};

}  // namespace

std::vector<OpDef> ops_in_range() { return {{"", "Range", 11, prepare<RangeKernel>}}; }

}  // namespace attune
