// Clip: bounds as attributes (until opset 10) or as inputs. NaN stays NaN.
#include <algorithm>
#include <limits>

#include "ops/op.h"
#include "ops/support/elements.h"
#include "ops/support/half.h"
#include "ops/support/parallel.h"
#include "ops/support/prepare.h"

namespace attune {
namespace {

class ClipKernel final : public Kernel {
 public:
  explicit ClipKernel(const KernelContext& context)
      : low_(context.node().attr_float("min", std::numeric_limits<float>::lowest())),
        high_(context.node().attr_float("max", std::numeric_limits<float>::max())),
        from_attributes_(context.opset() < 11) {}

  void run(KernelCall& call) const override {
    dispatch<float, double, Float16, BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
             uint64_t>(call.input(0).type(), [&]<class T>() { clip<T>(call); });
  }
  std::string implementation() const override { return "elementwise"; }

 private:
  template <class T, class C = ComputeType<T>>
  C bound(const KernelCall& call, size_t input, float attribute, C none) const {
    if (from_attributes_) {
      if constexpr (std::is_floating_point_v<C>) return C{attribute};
      return none;
    }
    const Tensor* t = call.optional_input(input);
    if (!t) return none;
    expect_type(*t, input, kDataTypeOf<T>);
    if (t->count() != 1) fail_input(input, "a scalar", t->shape().to_string());
    return static_cast<C>(t->data<T>()[0]);
  }

  template <class T>
  void clip(KernelCall& call) const {
    using C = ComputeType<T>;
    using Limits = std::numeric_limits<C>;
    C lowest = Limits::lowest(), highest = Limits::max();
    if constexpr (Limits::has_infinity) {
      lowest = -Limits::infinity();
      highest = Limits::infinity();
    }
    const C low = bound<T>(call, 1, low_, lowest), high = bound<T>(call, 2, high_, highest);
    Tensor in;
    Tensor out = reuse_or_allocate(call, 0, kDataTypeOf<T>, call.input(0).shape(), in);
    const T* x = in.data<T>();
    T* y = out.mutable_data<T>();
    parallel_for(out.count(), kParallelGrain, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        // Bounds the wrong way round give `high`, as in numpy.
        C v = static_cast<C>(x[i]);
        if (v < low) v = low;
        if (v > high) v = high;
        y[i] = static_cast<T>(v);
      }
    });
    call.set_output(0, std::move(out));
  }

  float low_, high_;
  bool from_attributes_;
};

}  // namespace

std::vector<OpDef> ops_in_clip() { return {{"", "Clip", 6, prepare<ClipKernel>}}; }

}  // namespace attune
