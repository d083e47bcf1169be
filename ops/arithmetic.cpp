// Add, Sub, Mul, Div, Mod, Min, Max, Sum, Mean: numpy's semantics with ONNX's multidirectional broadcasting.
#include <cmath>
#include <limits>
#include <type_traits>

#include "ops/op.h"
#include "ops/support/elements.h"
#include "ops/support/elementwise.h"
#include "ops/support/vector_math.h"

namespace attune {
namespace {

// Integers wrap: sums and products of every width are computed as unsigned ones of at least 32 bits.
template <class T>
auto widen(T x) {
  if constexpr (std::is_unsigned_v<T> && sizeof(T) < 4) {
    return uint32_t{x};
  } else {
    return x;
  }
}

struct AddFunction {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(widen(a) + widen(b));
  }
};
struct SubFunction {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(widen(a) - widen(b));
  }
};
struct MulFunction {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(widen(a) * widen(b));
  }
};

// Truncates integers; x / 0 is 0 as in numpy.
struct DivFunction {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return a / b;
    } else {
      if (b == 0) return 0;
      if constexpr (std::is_signed_v<T>)
        if (b == -1) return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(a));
      return static_cast<T>(a / b);
    }
  }
};

// The remainder with the sign of the divisor; x mod 0 is 0 for integers, as in numpy.
struct ModFunction {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      const T r = std::fmod(a, b);
      if (r == 0) return std::copysign(r, b);
      return (r < 0) != (b < 0) ? r + b : r;
    } else {
      if (b == 0) return 0;
      if constexpr (std::is_signed_v<T>) {
        if (b == -1) return 0;
        const T r = static_cast<T>(a % b);
        return r != 0 && (r < 0) != (b < 0) ? static_cast<T>(r + b) : r;
      } else {
        return static_cast<T>(a % b);
      }
    }
  }
};

// The remainder with the sign of the dividend.
struct FmodFunction {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return std::fmod(a, b);
    } else {
      if (b == 0) return 0;
      if constexpr (std::is_signed_v<T>)
        if (b == -1) return 0;
      return static_cast<T>(a % b);
    }
  }
};

// NaN if either is NaN.
struct MinFunction {
  template <class T>
  T operator()(T a, T b) const {
    return b < a || b != b ? (a != a ? a : b) : a;
  }
};
struct MaxFunction {
  template <class T>
  T operator()(T a, T b) const {
    return a < b || b != b ? (a != a ? a : b) : a;
  }
};

template <class F>
constexpr BinaryTable wrapping_table() {
  return signed_as_unsigned(
      binary_table<F, void, float, double, Float16, BFloat16, uint8_t, uint16_t, uint32_t, uint64_t>());
}
template <class F>
constexpr BinaryTable numeric_table() {
  return binary_table<F, void, float, double, Float16, BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
                      uint32_t, uint64_t>();
}

using FloatFunction = void (*)(const float* a, size_t a_step, const float* b, size_t b_step, float* out, size_t n);

template <FloatFunction kFunction>
void float_row(const std::byte* a, size_t a_step, const std::byte* b, size_t b_step, std::byte* out, size_t n) {
  kFunction(reinterpret_cast<const float*>(a), a_step, reinterpret_cast<const float*>(b), b_step,
            reinterpret_cast<float*>(out), n);
}
template <FloatFunction kFunction>
constexpr BinaryTable with_floats(BinaryTable table) {
  table[DataType::kFloat] = float_row<kFunction>;
  return table;
}

constexpr BinaryTable kAdd = with_floats<vector_math::add>(wrapping_table<AddFunction>());
constexpr BinaryTable kSub = with_floats<vector_math::subtract>(wrapping_table<SubFunction>());
constexpr BinaryTable kMul = with_floats<vector_math::multiply>(wrapping_table<MulFunction>());
constexpr BinaryTable kDiv = with_floats<vector_math::divide>(numeric_table<DivFunction>());
constexpr BinaryTable kMod = numeric_table<ModFunction>();
constexpr BinaryTable kFmod = numeric_table<FmodFunction>();
constexpr BinaryTable kMin = numeric_table<MinFunction>();
constexpr BinaryTable kMax = numeric_table<MaxFunction>();

std::unique_ptr<Kernel> prepare_mod(const KernelContext& context) {
  const bool fmod = context.node().attr_int("fmod", 0) != 0;
  return std::make_unique<BinaryKernel>(fmod ? kFmod : kMod);
}

// Min, Max, Sum, Mean: any number of inputs.
class VariadicKernel final : public Kernel {
 public:
  VariadicKernel(const BinaryTable& table, bool mean) : table_(table), mean_(mean) {}

  void run(KernelCall& call) const override {
    Shape shape = call.input(0).shape();
    const DataType type = call.input(0).type();
    for (size_t i = 1; i < call.input_count(); ++i) {
      const Tensor& t = call.input(i);
      if (t.type() != type) fail_input(i, name(type), name(t.type()));
      shape = broadcast(shape, t.shape());
    }
    if (!table_[type]) fail_type(type);
    Tensor result = call.input(0);
    for (size_t i = 1; i < call.input_count(); ++i) {
      Tensor sum = result.unique() && result.shape() == shape
                       ? result
                       : Tensor::allocate(type, broadcast(result.shape(), call.input(i).shape()), call.pool());
      run_binary(table_, result, call.input(i), sum);
      result = std::move(sum);
    }
    if (mean_ && call.input_count() > 1) {
      const Tensor count = number_as(type, static_cast<double>(call.input_count()));
      Tensor mean = Tensor::allocate(type, shape, call.pool());
      run_binary(kDiv, result, count, mean);
      result = std::move(mean);
    }
    call.set_output(0, std::move(result));
  }
  std::string implementation() const override { return "elementwise"; }

 private:
  static Tensor number_as(DataType type, double value) {
    return dispatch<float, double, Float16, BFloat16>(type, [&]<class T>() {
      if constexpr (std::is_same_v<T, double>)
        return Tensor::scalar(value);
      else
        return Tensor::scalar(T(static_cast<float>(value)));
    });
  }

  const BinaryTable& table_;
  bool mean_;
};

template <const BinaryTable& kTable, bool kMean = false>
std::unique_ptr<Kernel> prepare_variadic(const KernelContext&) {
  return std::make_unique<VariadicKernel>(kTable, kMean);
}

}  // namespace

std::vector<OpDef> ops_in_arithmetic() {
  return {
      {"", "Add", 7, prepare_binary<kAdd>, true},
      {"", "Sub", 7, prepare_binary<kSub>},
      {"", "Mul", 7, prepare_binary<kMul>, true},
      {"", "Div", 7, prepare_binary<kDiv>},
      {"", "Mod", 10, prepare_mod},
      {"", "Min", 1, prepare_variadic<kMin>, true},
      {"", "Max", 1, prepare_variadic<kMax>, true},
      {"", "Sum", 1, prepare_variadic<kAdd>, true},
      {"", "Mean", 1, prepare_variadic<kAdd, true>, true},
  };
}

}  // namespace attune
