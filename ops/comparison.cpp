// Equal, Greater, GreaterOrEqual, Less, LessOrEqual: with broadcasting, to bool. NaN is unequal to all.
#include <functional>

#include "ops/op.h"
#include "ops/support/elements.h"
#include "ops/support/elementwise.h"
#include "ops/support/prepare.h"

namespace attune {
namespace {

template <class F>
constexpr BinaryTable ordering_table() {
  return binary_table<F, bool, float, double, Float16, BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
                      uint32_t, uint64_t>();
}

constexpr BinaryTable equality_table() {
  BinaryTable table = signed_as_unsigned(
      binary_table<std::equal_to<>, bool, float, double, Float16, BFloat16, uint8_t, uint16_t, uint32_t, uint64_t>());
  table[DataType::kBool] = table[DataType::kUInt8];
  return table;
}

constexpr BinaryTable kEqual = equality_table();
constexpr BinaryTable kGreater = ordering_table<std::greater<>>();
constexpr BinaryTable kGreaterOrEqual = ordering_table<std::greater_equal<>>();
constexpr BinaryTable kLess = ordering_table<std::less<>>();
constexpr BinaryTable kLessOrEqual = ordering_table<std::less_equal<>>();

class EqualKernel final : public Kernel {
 public:
  explicit EqualKernel(const KernelContext&) {}
  void run(KernelCall& call) const override {
    if (call.input(0).type() != DataType::kString) {
      run_binary(call, kEqual);
      return;
    }
    const Tensor& a = call.input(0);
    const Tensor& b = call.input(1);
    Tensor& out = call.output(0, DataType::kBool, broadcast(a.shape(), b.shape()));
    const auto loop = broadcast_loop<3>(out.shape(), {&a.shape(), &b.shape(), &out.shape()});
    const auto steps = loop.row_strides();
    loop.rows(0, loop.count(), [&](const Loop<3>::Offsets& at, int64_t n) {
      for (int64_t i = 0; i < n; ++i)
        out.mutable_data<bool>()[at[2] + i] = a.strings()[static_cast<size_t>(at[0] + i * steps[0])] ==
                                              b.strings()[static_cast<size_t>(at[1] + i * steps[1])];
    });
  }
  std::string implementation() const override { return "elementwise"; }
};

}  // namespace

std::vector<OpDef> ops_in_comparison() {
  return {
      {"", "Equal", 7, prepare<EqualKernel>, true},
      {"", "Greater", 7, prepare_binary<kGreater>},
      {"", "GreaterOrEqual", 12, prepare_binary<kGreaterOrEqual>},
      {"", "Less", 7, prepare_binary<kLess>},
      {"", "LessOrEqual", 12, prepare_binary<kLessOrEqual>},
  };
}

}  // namespace attune
