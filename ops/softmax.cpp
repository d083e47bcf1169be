// Softmax, LogSoftmax, Hardmax.
#include <algorithm>
#include <vector>

#include "ops/op.h"
#include "ops/support/float_tensor.h"
#include "ops/support/parallel_items.h"
#include "ops/support/row_math.h"

namespace attune {
namespace {

enum class Kind { kSoftmax, kLogSoftmax, kHardmax };

template <class T>
void apply_row(Kind kind, const T* x, T* y, int64_t n) {
  switch (kind) {
    case Kind::kSoftmax:
      return softmax_row(x, y, n);
    case Kind::kLogSoftmax:
      return log_softmax_row(x, y, n);
    case Kind::kHardmax: {
      const auto best = std::max_element(x, x + n) - x;
      std::fill_n(y, n, T{0});
      y[best] = T{1};
    }
  }
}

class SoftmaxKernel : public Kernel {
 public:
  SoftmaxKernel(Kind kind, const KernelContext& context)
      : kind_(kind), flattens_(context.opset() < 13), axis_(context.node().attr_int("axis", flattens_ ? 1 : -1)) {}

  void run(KernelCall& call) const override {
    auto [x, y] = take_in_place(call, 0);
    dispatch_float(x.type(), [&]<class T>() { compute<T>(call, x, y); });
    call.set_output(0, std::move(y));
  }

 private:
  template <class T>
  void compute(KernelCall& call, const Tensor& x, Tensor& y) const {
    const Shape& shape = x.shape();
    const size_t axis = shape.rank() == 0 ? 0 : normalize_axis(axis_, shape.rank());
    const int64_t outer = shape.count(0, axis);
    // Before opset 13 all axes from `axis` on are one row.
    const bool rows = flattens_ || axis + 1 >= shape.rank();
    const int64_t n = rows ? shape.count(axis, shape.rank()) : shape[axis];
    const int64_t inner = rows ? 1 : shape.count(axis + 1, shape.rank());
    if (x.count() == 0) return;
    const FloatView<T> in(x, call.pool());
    if (y.type() == kDataTypeOf<T>) return apply<T>(in.data(), y.mutable_data<T>(), {outer, n, inner});
    Tensor wide = Tensor::allocate(kDataTypeOf<T>, shape, call.pool());
    apply<T>(in.data(), wide.mutable_data<T>(), {outer, n, inner});
    if constexpr (std::is_same_v<T, float>) narrow(y.type(), wide.data<float>(), y.mutable_raw(), y.count());
  }

  // Sizes before, of and after the axis.
  struct Extent {
    int64_t outer, n, inner;
  };

  template <class T>
  void apply(const T* x, T* y, Extent e) const {
    constexpr int64_t kExpCost = 4;
    if (e.inner == 1) {
      parallel_items(e.outer, e.n * kExpCost, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) apply_row(kind_, x + i * e.n, y + i * e.n, e.n);
      });
      return;
    }
    parallel_items(e.outer * e.inner, e.n * kExpCost, [&](int64_t begin, int64_t end) {
      std::vector<T> row(static_cast<size_t>(e.n));
      for (int64_t i = begin; i < end; ++i) {
        const int64_t start = i / e.inner * e.n * e.inner + i % e.inner;
        for (int64_t k = 0; k < e.n; ++k) row[static_cast<size_t>(k)] = x[start + k * e.inner];
        apply_row(kind_, row.data(), row.data(), e.n);
        for (int64_t k = 0; k < e.n; ++k) y[start + k * e.inner] = row[static_cast<size_t>(k)];
      }
    });
  }

  Kind kind_;
  bool flattens_;
  int64_t axis_;
};

template <Kind kKind>
std::unique_ptr<Kernel> make(const KernelContext& context) {
  return std::make_unique<SoftmaxKernel>(kKind, context);
}

}  // namespace

std::vector<OpDef> ops_in_softmax();
std::vector<OpDef> ops_in_softmax() {
  return {{"", "Softmax", 1, make<Kind::kSoftmax>},
          {"", "LogSoftmax", 1, make<Kind::kLogSoftmax>},
          {"", "Hardmax", 1, make<Kind::kHardmax>}};
}

}  // namespace attune
