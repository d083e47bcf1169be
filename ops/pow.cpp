// Pow: x to the y, in the type of x. The exponent may have another type.
#include <cmath>
#include <type_traits>

#include "ops/op.h"
#include "ops/support/cast.h"
#include "ops/support/elementwise.h"
#include "ops/support/prepare.h"

namespace attune {
namespace {

struct PowFunction {
  template <class T>
  T operator()(T x, T y) const {
    if constexpr (std::is_floating_point_v<T>) {
      return std::pow(x, y);
    } else {
      return integer_power(x, y);
    }
  }

 private:
  // Wraps; negative exponents as in real arithmetic, truncated: 1 and -1 stay, all else is 0.
  template <class T>
  static T integer_power(T x, T y) {
    if (y < 0) return x == 1 ? T{1} : x == -1 ? (y % 2 == 0 ? T{1} : T{-1}) : T{0};
    uint64_t result = 1, base = static_cast<uint64_t>(x);
    for (auto n = static_cast<uint64_t>(y); n > 0; n >>= 1, base *= base)
      if (n & 1) result *= base;
    return static_cast<T>(result);
  }
};
struct SquareFunction {
  template <class T>
  T operator()(T x) const {
    return x * x;
  }
};
struct CubeFunction {
  template <class T>
  T operator()(T x) const {
    return x * x * x;
  }
};

constexpr BinaryTable kPow = binary_table<PowFunction, void, float, double, int64_t>();
constexpr UnaryTable kSquare = unary_table<SquareFunction, void, float, double, Float16, BFloat16>();
constexpr UnaryTable kCube = unary_table<CubeFunction, void, float, double, Float16, BFloat16>();

// What both operands are converted to: float unless one of them has more digits, int64 for integers.
DataType compute_type(DataType x, DataType y) {
  if (is_integer(x) && is_integer(y)) return DataType::kInt64;
  const auto fits_float = [](DataType t) { return t == DataType::kFloat || element_bits(t) <= 16; };
  return fits_float(x) && (fits_float(y) || is_integer(y)) ? DataType::kFloat : DataType::kDouble;
}

class PowKernel final : public Kernel {
 public:
  explicit PowKernel(const KernelContext&) {}

  void run(KernelCall& call) const override {
    const Tensor& x = call.input(0);
    const Tensor& y = call.input(1);
    if (is_float(x.type()) && y.count() == 1 && y.rank() <= x.rank() && kSquare[x.type()]) {
      const double exponent = y.to_double()[0];
      if (exponent == 2) return run_unary(call, kSquare, {});
      if (exponent == 3) return run_unary(call, kCube, {});
    }
    const DataType compute = compute_type(x.type(), y.type());
    const Tensor a = cast(x, compute, call.pool()), b = cast(y, compute, call.pool());
    Tensor result = Tensor::allocate(compute, broadcast(x.shape(), y.shape()), call.pool());
    run_binary(kPow, a, b, result);
    call.set_output(0, cast(result, x.type(), call.pool()));
  }
  std::string implementation() const override { return "elementwise"; }
};

}  // namespace

std::vector<OpDef> ops_in_pow() { return {{"", "Pow", 7, prepare<PowKernel>}}; }

}  // namespace attune
