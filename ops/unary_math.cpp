// Elementwise functions of one tensor: signs, roundings, powers, logarithms, trigonometric and hyperbolic functions.
#include <cmath>
#include <type_traits>

#include "ops/op.h"
#include "ops/support/elementwise.h"
#include "ops/support/vector_math.h"

namespace attune {
namespace {

struct AbsFunction {
  template <class T>
  T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>)
      return std::abs(x);
    else if constexpr (std::is_signed_v<T>)
      return x < 0 ? static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(x)) : x;
    else
      return x;
  }
};
struct NegFunction {
  template <class T>
  T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>)
      return -x;
    else
      return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(x));
  }
};
struct SignFunction {
  template <class T>
  T operator()(T x) const {
    if (x != x) return x;
    if constexpr (std::is_unsigned_v<T>)
      return x > 0;
    else
      return static_cast<T>((x > 0) - (x < 0));
  }
};
// Halves to the nearest even integer.
struct RoundFunction {
  template <class T>
  T operator()(T x) const {
    return std::nearbyint(x);
  }
};
struct ReciprocalFunction {
  template <class T>
  T operator()(T x) const {
    return 1 / x;
  }
};
// Integers are converted, and the result truncated.
struct ErfFunction {
  template <class T>
  T operator()(T x) const {
    return static_cast<T>(std::erf(x));
  }
};
struct IsNanFunction {
  template <class T>
  bool operator()(T x) const {
    return x != x;
  }
};

#define ATTUNE_STD_FUNCTION(Name, function) \
  struct Name##Function {                   \
    template <class T>                      \
    T operator()(T x) const {               \
      return std::function(x);              \
    }                                       \
  }
ATTUNE_STD_FUNCTION(Floor, floor);
ATTUNE_STD_FUNCTION(Ceil, ceil);
ATTUNE_STD_FUNCTION(Sqrt, sqrt);
ATTUNE_STD_FUNCTION(Exp, exp);
ATTUNE_STD_FUNCTION(Log, log);
ATTUNE_STD_FUNCTION(Sin, sin);
ATTUNE_STD_FUNCTION(Cos, cos);
ATTUNE_STD_FUNCTION(Tan, tan);
ATTUNE_STD_FUNCTION(Asin, asin);
ATTUNE_STD_FUNCTION(Acos, acos);
ATTUNE_STD_FUNCTION(Atan, atan);
ATTUNE_STD_FUNCTION(Sinh, sinh);
ATTUNE_STD_FUNCTION(Cosh, cosh);
ATTUNE_STD_FUNCTION(Tanh, tanh);
ATTUNE_STD_FUNCTION(Asinh, asinh);
ATTUNE_STD_FUNCTION(Acosh, acosh);
ATTUNE_STD_FUNCTION(Atanh, atanh);
#undef ATTUNE_STD_FUNCTION

template <class F>
constexpr UnaryTable numeric_table() {
  return unary_table<F, void, float, double, Float16, BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
                     uint32_t, uint64_t>();
}
constexpr UnaryTable erf_table() {
  UnaryTable table = numeric_table<ErfFunction>();
  set_vector_rows<vector_math::erf>(table);
  return table;
}

constexpr UnaryTable kAbs = numeric_table<AbsFunction>();
constexpr UnaryTable kNeg =
    unary_table<NegFunction, void, float, double, Float16, BFloat16, int8_t, int16_t, int32_t, int64_t>();
constexpr UnaryTable kSign = numeric_table<SignFunction>();
constexpr UnaryTable kRound = float_table<RoundFunction>();
constexpr UnaryTable kFloor = float_table<FloorFunction>();
constexpr UnaryTable kCeil = float_table<CeilFunction>();
constexpr UnaryTable kReciprocal = float_table<ReciprocalFunction>();
constexpr UnaryTable kIsNan = unary_table<IsNanFunction, bool, float, double, Float16, BFloat16>();
constexpr UnaryTable kSqrt = float_table<SqrtFunction>();
constexpr UnaryTable kExp = vector_table<ExpFunction, vector_math::exp>();
constexpr UnaryTable kLog = vector_table<LogFunction, vector_math::log>();
constexpr UnaryTable kErf = erf_table();
constexpr UnaryTable kTanh = vector_table<TanhFunction, vector_math::tanh>();
constexpr UnaryTable kSin = float_table<SinFunction>();
constexpr UnaryTable kCos = float_table<CosFunction>();
constexpr UnaryTable kTan = float_table<TanFunction>();
constexpr UnaryTable kAsin = float_table<AsinFunction>();
constexpr UnaryTable kAcos = float_table<AcosFunction>();
constexpr UnaryTable kAtan = float_table<AtanFunction>();
constexpr UnaryTable kSinh = float_table<SinhFunction>();
constexpr UnaryTable kCosh = float_table<CoshFunction>();
constexpr UnaryTable kAsinh = float_table<AsinhFunction>();
constexpr UnaryTable kAcosh = float_table<AcoshFunction>();
constexpr UnaryTable kAtanh = float_table<AtanhFunction>();

// IsInf: alpha and beta say whether negative and positive infinities count.
struct IsInfFunction {
  explicit IsInfFunction(const Parameters& p) : negative(p.alpha != 0), positive(p.beta != 0) {}
  template <class T>
  bool operator()(T x) const {
    return std::isinf(x) && (x < 0 ? negative : positive);
  }
  bool negative, positive;
};
constexpr UnaryTable kIsInf = unary_table<IsInfFunction, bool, float, double, Float16, BFloat16>();

std::unique_ptr<Kernel> prepare_is_inf(const KernelContext& context) {
  const auto flag = [&](std::string_view name) { return static_cast<double>(context.node().attr_int(name, 1)); };
  return std::make_unique<UnaryKernel>(kIsInf, Parameters{flag("detect_negative"), flag("detect_positive")});
}

}  // namespace

std::vector<OpDef> ops_in_unary_math() {
  return {
      {"", "Abs", 6, prepare_unary<kAbs>},     {"", "Neg", 6, prepare_unary<kNeg>},
      {"", "Sign", 9, prepare_unary<kSign>},   {"", "Round", 11, prepare_unary<kRound>},
      {"", "Floor", 6, prepare_unary<kFloor>}, {"", "Ceil", 6, prepare_unary<kCeil>},
      {"", "Sqrt", 6, prepare_unary<kSqrt>},   {"", "Reciprocal", 6, prepare_unary<kReciprocal>},
      {"", "Exp", 6, prepare_unary<kExp>},     {"", "Log", 6, prepare_unary<kLog>},
      {"", "Erf", 9, prepare_unary<kErf>},     {"", "IsNaN", 9, prepare_unary<kIsNan>},
      {"", "IsInf", 10, prepare_is_inf},       {"", "Sin", 7, prepare_unary<kSin>},
      {"", "Cos", 7, prepare_unary<kCos>},     {"", "Tan", 7, prepare_unary<kTan>},
      {"", "Asin", 7, prepare_unary<kAsin>},   {"", "Acos", 7, prepare_unary<kAcos>},
      {"", "Atan", 7, prepare_unary<kAtan>},   {"", "Sinh", 9, prepare_unary<kSinh>},
      {"", "Cosh", 9, prepare_unary<kCosh>},   {"", "Tanh", 6, prepare_unary<kTanh>},
      {"", "Asinh", 9, prepare_unary<kAsinh>}, {"", "Acosh", 9, prepare_unary<kAcosh>},
      {"", "Atanh", 9, prepare_unary<kAtanh>},
  };
}

}  // namespace attune
