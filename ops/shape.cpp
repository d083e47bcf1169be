// Shape (with start and end) and Size.
#include <algorithm>

#include "ops/op.h"
#include "ops/support/prepare.h"

namespace attune {
namespace {

class ShapeKernel final : public Kernel {
 public:
  explicit ShapeKernel(const KernelContext& context)
      : start_(context.node().attr_int("start", 0)), end_(context.node().attr_int("end", INT64_MAX)) {}

  void run(KernelCall& call) const override {
    const Shape shape = call.input(0).shape();
    const auto rank = static_cast<int64_t>(shape.rank());
    const auto clamp = [rank](int64_t i) { return std::clamp(i < 0 ? i + rank : i, int64_t{0}, rank); };
    const int64_t begin = clamp(start_), end = std::max(begin, clamp(end_));
    Tensor& out = call.output(0, DataType::kInt64, {end - begin});
    std::copy(shape.begin() + begin, shape.begin() + end, out.mutable_data<int64_t>());
  }
  bool accepts_strided(size_t) const override { return true; }
  bool reads_shapes_only() const override { return true; }

 private:
  int64_t start_, end_;
};

class SizeKernel final : public Kernel {
 public:
  explicit SizeKernel(const KernelContext&) {}
  void run(KernelCall& call) const override {
    const int64_t count = call.input(0).count();
    call.output(0, DataType::kInt64, {}).mutable_data<int64_t>()[0] = count;
  }
  bool accepts_strided(size_t) const override { return true; }
  bool reads_shapes_only() const override { return true; }
};

}  // namespace

std::vector<OpDef> ops_in_shape() {
  return {{"", "Shape", 1, prepare<ShapeKernel>}, {"", "Size", 1, prepare<SizeKernel>}};
}

}  // namespace attune
