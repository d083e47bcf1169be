// NonZero and Compress: elements that a condition picks.
#include <fmt/format.h>

#include "ops/op.h"
#include "ops/support/cast.h"
#include "ops/support/elements.h"
#include "ops/support/packed_types.h"
#include "ops/support/prepare.h"

namespace attune {
namespace {

// Indices of the elements other than zero, one column each, in row-major order.
class NonZeroKernel final : public Kernel {
 public:
  explicit NonZeroKernel(const KernelContext&) {}

  void run(KernelCall& call) const override {
    const Tensor flags = cast(call.input(0), DataType::kBool, call.pool());
    const bool* set = flags.data<bool>();
    const int64_t n = std::count(set, set + flags.count(), true);
    const auto rank = static_cast<int64_t>(flags.rank());
    Tensor& out = call.output(0, DataType::kInt64, {rank, n});
    int64_t* y = out.mutable_data<int64_t>();
    int64_t column = 0;
    for (int64_t i = 0; i < flags.count(); ++i) {
      if (!set[i]) continue;
      int64_t rest = i;
      for (int64_t d = rank; d-- > 0; rest /= flags.dim(static_cast<size_t>(d)))
        y[d * n + column] = rest % flags.dim(static_cast<size_t>(d));
      ++column;
    }
  }
};

class CompressKernel final : public Kernel {
 public:
  explicit CompressKernel(const KernelContext& context)
      : flat_(!context.node().has("axis")), axis_(context.node().attr_int("axis", 0)) {}

  void run(KernelCall& call) const override {
    if (run_in_bytes(*this, call, call.input(0))) return;
    const Tensor in = flat_ ? call.input(0).reshaped({call.input(0).count()}) : call.input(0);
    const Tensor& condition = call.input(1);
    expect_type(condition, 1, DataType::kBool);
    expect_rank(condition, 1, 1);
    const size_t axis = normalize_axis(axis_, in.rank());
    const int64_t n = in.dim(axis), inner = in.shape().count(axis + 1, in.rank());
    // A shorter condition drops the rest.
    const int64_t asked = condition.count();
    const bool* picks = condition.data<bool>();
    if (std::count(picks + std::min(n, asked), picks + asked, true) > 0)
      fail_input(1, fmt::format("nothing true from {} on", n), condition.shape().to_string());
    const int64_t considered = std::min(n, asked);
    Shape shape = in.shape();
    shape[axis] = std::count(picks, picks + considered, true);
    Tensor& out = call.output(0, in.type(), shape);
    dispatch_width(in.type(), [&]<class T>() {
      const T* from = elements<T>(in);
      T* to = mutable_elements<T>(out);
      for (int64_t o = 0; o < in.shape().count(0, axis); ++o)
        for (int64_t i = 0; i < considered; ++i)
          if (picks[i]) to = std::copy_n(from + (o * n + i) * inner, inner, to);
    });
  }

 private:
  bool flat_;
  int64_t axis_;
};

}  // namespace

std::vector<OpDef> ops_in_non_zero() {
  return {{"", "NonZero", 9, prepare<NonZeroKernel>}, {"", "Compress", 9, prepare<CompressKernel>}};
}

}  // namespace attune
