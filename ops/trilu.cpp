// Trilu: keeps the upper or lower triangle of matrices, zero elsewhere.
#include <algorithm>

#include "ops/op.h"
#include "ops/support/elements.h"
#include "ops/support/packed_types.h"
#include "ops/support/prepare.h"

namespace attune {
namespace {

class TriluKernel final : public Kernel {
 public:
  explicit TriluKernel(const KernelContext& context) : upper_(context.node().attr_int("upper", 1) != 0) {}

  void run(KernelCall& call) const override {
    const Tensor& in = call.input(0);
    if (run_in_bytes(*this, call, in)) return;
    if (in.rank() < 2) fail_input(0, "rank 2 or more", in.shape().to_string());
    // Beyond +-2^40 all matrices are wholly in or out.
    const int64_t k = call.has(1) ? std::clamp(read_integer(call, 1), -(int64_t{1} << 40), int64_t{1} << 40) : 0;
    Tensor& out = call.output(0, in.type(), in.shape());
    const int64_t columns = in.shape().back(), rows = in.dim(in.rank() - 2);
    dispatch_width(in.type(), [&]<class T>() {
      const T* from = elements<T>(in);
      T* to = mutable_elements<T>(out);
      for (int64_t i = 0; i < in.count() / std::max<int64_t>(columns, 1); ++i, from += columns, to += columns) {
        // Columns before `diagonal` are below it.
        const int64_t diagonal = std::clamp(i % rows + k + (upper_ ? 0 : 1), int64_t{0}, columns);
        const auto keep = [&](int64_t begin, int64_t end) { std::copy_n(from + begin, end - begin, to + begin); };
        const auto clear = [&](int64_t begin, int64_t end) { std::fill_n(to + begin, end - begin, T{}); };
        if (upper_) {
          clear(0, diagonal);
          keep(diagonal, columns);
        } else {
          keep(0, diagonal);
          clear(diagonal, columns);
        }
      }
    });
  }
  std::string implementation() const override { return "copy"; }

 private:
  bool upper_;
};

}  // namespace

std::vector<OpDef> ops_in_trilu() { return {{"", "Trilu", 14, prepare<TriluKernel>}}; }

}  // namespace attune
