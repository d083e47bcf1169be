// Cast and CastLike between all element types; BitCast.
#include <fmt/format.h>

#include "ops/op.h"
#include "ops/support/cast.h"
#include "ops/support/prepare.h"

namespace attune {
namespace {

SmallFloatRounding rounding_of(const Node& node) {
  SmallFloatRounding rounding;
  rounding.saturate = node.attr_int("saturate", 1) != 0;
  const std::string mode = node.attr_string("round_mode", "up");
  if (mode == "down") rounding.e8m0 = SmallFloatRounding::Mode::kDown;
  if (mode == "nearest") rounding.e8m0 = SmallFloatRounding::Mode::kNearest;
  return rounding;
}

void run_cast(KernelCall& call, DataType to, const SmallFloatRounding& rounding) {
  if (call.input(0).type() == to) {
    call.set_datum(0, call.take(0));
  } else {
    call.set_output(0, cast(call.input(0), to, call.pool(), rounding));
  }
}

DataType target_of(const Node& node) {
  const auto type = static_cast<DataType>(node.attr_int("to", 0));
  if (element_bits(type) == 0 && type != DataType::kString)
    throw Error(Error::Kind::kInvalidModel, fmt::format("to: {} is no element type", node.attr_int("to", 0)));
  return type;
}

class CastKernel final : public Kernel {
 public:
  explicit CastKernel(const KernelContext& context)
      : to_(target_of(context.node())), rounding_(rounding_of(context.node())) {}
  void run(KernelCall& call) const override { run_cast(call, to_, rounding_); }
  std::string implementation() const override { return "elementwise"; }

 private:
  DataType to_;
  SmallFloatRounding rounding_;
};

class CastLikeKernel final : public Kernel {
 public:
  explicit CastLikeKernel(const KernelContext& context) : rounding_(rounding_of(context.node())) {}
  void run(KernelCall& call) const override { run_cast(call, call.input(1).type(), rounding_); }
  std::string implementation() const override { return "elementwise"; }

 private:
  SmallFloatRounding rounding_;
};

// The same bits as another type of the same width.
class BitCastKernel final : public Kernel {
 public:
  explicit BitCastKernel(const KernelContext& context) : to_(target_of(context.node())) {}
  void run(KernelCall& call) const override {
    const Datum taken = call.take(0);
    const Tensor& in = taken.tensor();
    if (element_bits(in.type()) != element_bits(to_) || in.type() == DataType::kString)
      fail_input(0, fmt::format("a type of {} bits", element_bits(to_)), name(in.type()));
    const auto offset = static_cast<size_t>(in.raw() - in.buffer()->data());
    call.set_output(0, Tensor::from_buffer(to_, in.shape(), in.buffer(), offset));
  }
  std::string implementation() const override { return "alias"; }

 private:
  DataType to_;
};

}  // namespace

std::vector<OpDef> ops_in_cast() {
  return {{"", "Cast", 6, prepare<CastKernel>},
          {"", "CastLike", 15, prepare<CastLikeKernel>},
          {"", "BitCast", 26, prepare<BitCastKernel>}};
}

}  // namespace attune
