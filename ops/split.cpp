// Split: parts along an axis, of given or of equal sizes.
#include <fmt/format.h>

#include <optional>

#include "ops/op.h"
#include "ops/support/elements.h"
#include "ops/support/parts.h"
#include "ops/support/prepare.h"

namespace attune {
namespace {

class SplitKernel final : public Kernel {
 public:
  explicit SplitKernel(const KernelContext& context) : axis_(context.node().attr_int("axis", 0)) {
    const Node& node = context.node();
    if (node.has("split")) sizes_ = node.attr_ints("split");
    outputs_ = node.attr_int("num_outputs", static_cast<int64_t>(node.output_count()));
    if (outputs_ < static_cast<int64_t>(node.output_count()))
      throw Error(Error::Kind::kInvalidModel,
                  fmt::format("num_outputs is {} for {} outputs", outputs_, node.output_count()));
  }

  void run(KernelCall& call) const override {
    const Tensor& in = call.input(0);
    const size_t axis = normalize_axis(axis_, in.rank());
    const auto sizes = call.has(1) ? std::optional(call.input(1).to_int64()) : sizes_;
    const int64_t total = in.dim(axis);
    if (sizes) check(*sizes, total, call.output_count());
    // Equal parts; the last is smaller if it must.
    const int64_t each = total / outputs_ + (total % outputs_ != 0 ? 1 : 0);
    int64_t at = 0;
    for (size_t i = 0; i < call.output_count(); ++i) {
      const int64_t size = sizes ? (*sizes)[i] : std::min(each, total - at);
      if (call.wants(i)) call.set_output(i, part_of(in, axis, at, size, call.pool()));
      at += size;
    }
  }
  bool accepts_strided(size_t input) const override { return input == 0; }
  std::string implementation() const override { return "copy"; }

 private:
  static void check(const std::vector<int64_t>& sizes, int64_t total, size_t outputs) {
    int64_t sum = 0;
    for (const int64_t size : sizes)
      if (size < 0 || __builtin_add_overflow(sum, size, &sum)) sum = -1;
    if (sum != total || sizes.size() != outputs)
      throw Error(Error::Kind::kInvalidArgument,
                  fmt::format("split ({}) of {} elements into {} outputs", fmt::join(sizes, ","), total, outputs));
  }

  int64_t axis_, outputs_;
  std::optional<std::vector<int64_t>> sizes_;
};

}  // namespace

std::vector<OpDef> ops_in_split() { return {{"", "Split", 2, prepare<SplitKernel>}}; }

}  // namespace attune
