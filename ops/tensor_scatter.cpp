// TensorScatter: writes an update into a cache at a position per batch entry, in place where it can.
#include <fmt/format.h>

#include "ops/op.h"
#include "ops/support/elements.h"
#include "ops/support/packed_types.h"
#include "ops/support/prepare.h"

namespace attune {
namespace {

class TensorScatterKernel final : public Kernel {
 public:
  explicit TensorScatterKernel(const KernelContext& context)
      : axis_(context.node().attr_int("axis", -2)),
        circular_(context.node().attr_string("mode", "linear") == "circular") {}

  void run(KernelCall& call) const override {
    const Tensor& update = call.input(1);
    if (run_in_bytes(*this, call, update)) return;
    const Shape shape = call.input(0).shape();
    expect_type(update, 1, call.input(0).type());
    const size_t axis = normalize_axis(axis_, shape.rank());
    if (axis == 0) throw Error(Error::Kind::kInvalidModel, "axis: the batch axis can't be the sequence axis");
    Shape expected = shape;
    if (update.rank() == shape.rank()) expected[axis] = std::min(update.dim(axis), shape[axis]);
    if (update.shape() != expected) fail_input(1, expected.to_string() + " or shorter", update.shape().to_string());
    const int64_t capacity = shape[axis], n = update.dim(axis), batch = shape[0];
    std::vector<int64_t> starts(static_cast<size_t>(batch), 0);
    if (call.has(2)) starts = read_starts(call, batch);
    for (const int64_t start : starts)
      if (start < 0 || (!circular_ && start > capacity - n))
        fail_input(2, fmt::format("positions up to {}", capacity - n), fmt::format("{}", start));

    Tensor out = take_or_copy(call, 0);
    const int64_t inner = shape.count(axis + 1, shape.rank()), outer = shape.count(1, axis);
    dispatch_width(out.type(), [&]<class T>() {
      const T* from = elements<T>(call.input(1));
      T* to = mutable_elements<T>(out);
      for (int64_t o = 0; o < batch * outer; ++o) {
        const int64_t start = starts[static_cast<size_t>(o / outer)];
        for (int64_t i = 0; i < n; ++i) {
          const int64_t at = circular_ ? (start % capacity + i) % capacity : start + i;
          std::copy_n(from + (o * n + i) * inner, inner, to + (o * capacity + at) * inner);
        }
      }
    });
    call.set_output(0, std::move(out));
  }
  std::string implementation() const override { return "copy"; }

 private:
  static std::vector<int64_t> read_starts(const KernelCall& call, int64_t batch) {
    auto starts = call.input(2).to_int64();
    if (static_cast<int64_t>(starts.size()) != batch)
      fail_input(2, fmt::format("{} positions", batch), fmt::format("{}", starts.size()));
    return starts;
  }

  int64_t axis_;
  bool circular_;
};

}  // namespace

std::vector<OpDef> ops_in_tensor_scatter() { return {{"", "TensorScatter", 24, prepare<TensorScatterKernel>}}; }

}  // namespace attune
