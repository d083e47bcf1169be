// Where: picks from two tensors by a condition, all broadcast together. Moves elements by width.
#include "ops/op.h"
#include "ops/support/elements.h"
#include "ops/support/loop.h"
#include "ops/support/packed_types.h"
#include "ops/support/prepare.h"
#include "ops/support/vector_math.h"

namespace attune {
namespace {

template <class T, bool kConditionStep, bool kXStep, bool kYStep>
void select(const bool* condition, const T* x, const T* y, T* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = condition[kConditionStep ? i : 0] ? x[kXStep ? i : 0] : y[kYStep ? i : 0];
}

template <class T>
void where(const Tensor& condition, const Tensor& x, const Tensor& y, Tensor& out) {
  const auto loop = broadcast_loop<4>(out.shape(), {&condition.shape(), &x.shape(), &y.shape(), &out.shape()});
  const auto steps = loop.row_strides();
  const bool* c = condition.data<bool>();
  const T* a = elements<T>(x);
  const T* b = elements<T>(y);
  T* to = mutable_elements<T>(out);
  if constexpr (std::is_same_v<T, uint32_t>) {
    if (steps[0] == 1) {
      const auto floats = [](const T* p) { return reinterpret_cast<const float*>(p); };
      loop.parallel_rows([&](const Loop<4>::Offsets& at, int64_t n) {
        vector_math::select(c + at[0], floats(a + at[1]), static_cast<size_t>(steps[1]), floats(b + at[2]),
                            static_cast<size_t>(steps[2]), reinterpret_cast<float*>(to + at[3]),
                            static_cast<size_t>(n));
      });
      return;
    }
  }
  using Select = void (*)(const bool*, const T*, const T*, T*, int64_t);
  constexpr Select kSelect[] = {select<T, false, false, false>, select<T, false, false, true>,
                                select<T, false, true, false>,  select<T, false, true, true>,
                                select<T, true, false, false>,  select<T, true, false, true>,
                                select<T, true, true, false>,   select<T, true, true, true>};
  const Select row = kSelect[steps[0] * 4 + steps[1] * 2 + steps[2]];
  loop.parallel_rows(
      [&](const Loop<4>::Offsets& at, int64_t n) { row(c + at[0], a + at[1], b + at[2], to + at[3], n); });
}

class WhereKernel final : public Kernel {
 public:
  explicit WhereKernel(const KernelContext&) {}

  void run(KernelCall& call) const override {
    const Tensor& condition = call.input(0);
    const Tensor& x = call.input(1);
    if (run_in_bytes(*this, call, x)) return;
    const Tensor& y = call.input(2);
    expect_type(condition, 0, DataType::kBool);
    expect_type(y, 2, x.type());
    const Shape shape = broadcast(condition.shape(), broadcast(x.shape(), y.shape()));
    const DataType type = x.type();
    Tensor taken;
    const size_t reused = x.shape() == shape ? 1 : 2;
    Tensor out = reuse_or_allocate(call, reused, type, shape, taken);
    const Tensor& a = reused == 1 ? taken : call.input(1);
    const Tensor& b = reused == 2 ? taken : call.input(2);
    dispatch_width(type, [&]<class T>() { where<T>(call.input(0), a, b, out); });
    call.set_output(0, std::move(out));
  }
  std::string implementation() const override { return "elementwise"; }
};

}  // namespace

std::vector<OpDef> ops_in_where() { return {{"", "Where", 9, prepare<WhereKernel>}}; }

}  // namespace attune
