// Constant and ConstantOfShape.

#include "graph/constant_node.h"
#include "ops/op.h"
#include "ops/support/elements.h"
#include "ops/support/packed_types.h"
#include "ops/support/prepare.h"

namespace attune {
namespace {

Tensor value_of(const Node& node) {
  if (auto value = constant_node_value(node)) return *value;
  throw Error(Error::Kind::kUnsupported, "a Constant without a dense value");
}

class ConstantKernel final : public Kernel {
 public:
  explicit ConstantKernel(const KernelContext& context) : value_(value_of(context.node())) {}
  void run(KernelCall& call) const override { call.set_output(0, value_); }
  std::string implementation() const override { return "constant"; }

 private:
  Tensor value_;
};

class ConstantOfShapeKernel final : public Kernel {
 public:
  explicit ConstantOfShapeKernel(const KernelContext& context) : value_(Tensor::scalar(0.0f)) {
    if (const auto* t = context.node().find<Tensor>("value")) value_ = *t;
    if (value_.count() != 1)
      throw Error(Error::Kind::kInvalidModel, "value: expected one element, got shape " + value_.shape().to_string());
  }

  void run(KernelCall& call) const override {
    const Shape shape = read_integers(call, 0);
    if (is_packed(value_.type())) {
      Tensor codes = Tensor::allocate(DataType::kUInt8, shape, call.pool());
      std::fill_n(codes.mutable_data<uint8_t>(), codes.count(),
                  spread_to_bytes(value_, call.pool()).data<uint8_t>()[0]);
      call.set_output(0, pack_bytes(codes, value_.type(), call.pool()));
      return;
    }
    Tensor& out = call.output(0, value_.type(), shape);
    dispatch_width(value_.type(),
                   [&]<class T>() { std::fill_n(mutable_elements<T>(out), out.count(), elements<T>(value_)[0]); });
  }

 private:
  Tensor value_;
};

}  // namespace

std::vector<OpDef> ops_in_constant() {
  return {{"", "Constant", 1, prepare<ConstantKernel>}, {"", "ConstantOfShape", 9, prepare<ConstantOfShapeKernel>}};
}

}  // namespace attune
