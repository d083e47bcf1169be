// And, Or, Xor, Not; BitwiseAnd, BitwiseOr, BitwiseXor, BitwiseNot; BitShift.
#include <functional>
#include <type_traits>

#include "ops/op.h"
#include "ops/support/elementwise.h"

namespace attune {
namespace {

struct XorFunction {
  bool operator()(bool a, bool b) const { return a != b; }
};

// Shifts by the width or more (a negative count taken as unsigned, too) move all bits out; right shifts of signed
// integers repeat the sign.
struct LeftShift {
  template <class T>
  T operator()(T a, T b) const {
    using U = std::make_unsigned_t<T>;
    const auto count = static_cast<U>(b);
    if (count >= sizeof(T) * 8) return 0;
    return static_cast<T>(uint64_t{static_cast<U>(a)} << count);
  }
};
struct RightShift {
  template <class T>
  T operator()(T a, T b) const {
    using U = std::make_unsigned_t<T>;
    const auto count = static_cast<U>(b);
    if (count >= sizeof(T) * 8) return std::is_signed_v<T> && a < 0 ? static_cast<T>(-1) : T{0};
    return static_cast<T>(a >> count);
  }
};

template <class F>
constexpr BinaryTable bitwise_table() {
  return signed_as_unsigned(binary_table<F, void, uint8_t, uint16_t, uint32_t, uint64_t>());
}

constexpr BinaryTable kAnd = binary_table<std::logical_and<>, bool, bool>();
constexpr BinaryTable kOr = binary_table<std::logical_or<>, bool, bool>();
constexpr BinaryTable kXor = binary_table<XorFunction, bool, bool>();
constexpr UnaryTable kNot = unary_table<std::logical_not<>, bool, bool>();
constexpr BinaryTable kBitwiseAnd = bitwise_table<std::bit_and<>>();
constexpr BinaryTable kBitwiseOr = bitwise_table<std::bit_or<>>();
constexpr BinaryTable kBitwiseXor = bitwise_table<std::bit_xor<>>();
constexpr UnaryTable kBitwiseNot =
    signed_as_unsigned(unary_table<std::bit_not<>, void, uint8_t, uint16_t, uint32_t, uint64_t>());
constexpr BinaryTable kLeftShift =
    binary_table<LeftShift, void, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>();
constexpr BinaryTable kRightShift =
    binary_table<RightShift, void, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>();

std::unique_ptr<Kernel> prepare_bit_shift(const KernelContext& context) {
  const std::string direction = context.node().attr_string("direction", "");
  if (direction != "LEFT" && direction != "RIGHT")
    throw Error(Error::Kind::kInvalidModel, "direction: expected LEFT or RIGHT, got '" + direction + "'");
  return std::make_unique<BinaryKernel>(direction == "LEFT" ? kLeftShift : kRightShift);
}

}  // namespace

std::vector<OpDef> ops_in_logical() {
  return {
      {"", "And", 7, prepare_binary<kAnd>, true},
      {"", "Or", 7, prepare_binary<kOr>, true},
      {"", "Xor", 7, prepare_binary<kXor>, true},
      {"", "Not", 1, prepare_unary<kNot>},
      {"", "BitwiseAnd", 18, prepare_binary<kBitwiseAnd>, true},
      {"", "BitwiseOr", 18, prepare_binary<kBitwiseOr>, true},
      {"", "BitwiseXor", 18, prepare_binary<kBitwiseXor>, true},
      {"", "BitwiseNot", 18, prepare_unary<kBitwiseNot>},
      {"", "BitShift", 11, prepare_bit_shift},
  };
}

}  // namespace attune
