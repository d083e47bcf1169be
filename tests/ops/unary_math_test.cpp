#include <limits>

#include "ops/support/vector_math.h"
#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Function {
  std::string type;
  double (*f)(double);
  std::vector<double> inputs;
};

TEST(UnaryMath, EveryFloatTypeAsTheStandardLibrary) {
  const std::vector<double> all = {-3, -1.5, -0.5, -0.0, 0, 0.25, 0.5, 1, 2.5, 3.5, 4, kInfinity, -kInfinity, kNan};
  const std::vector<double> unit = {-1, -0.75, 0, 0.25, 1}, positive = {0.0, 0.25, 1, 3, 1000, kInfinity};
  const std::vector<Function> functions = {
      {"Abs", std::fabs, all},
      {"Neg", [](double x) { return -x; }, all},
      {"Floor", std::floor, all},
      {"Ceil", std::ceil, all},
      {"Round", std::nearbyint, all},
      {"Sqrt", std::sqrt, positive},
      {"Exp", std::exp, all},
      {"Log", std::log, positive},
      {"Erf", std::erf, all},
      {"Tanh", std::tanh, all},
      {"Sin", std::sin, {-3, 0.5, 2}},
      {"Cos", std::cos, {-3, 0.5, 2}},
      {"Tan", std::tan, {-1, 0.5, 1}},
      {"Asin", std::asin, unit},
      {"Acos", std::acos, unit},
      {"Atan", std::atan, all},
      {"Sinh", std::sinh, {-2, 0, 3}},
      {"Cosh", std::cosh, {-2, 0, 3}},
      {"Asinh", std::asinh, {-2, 0, 3}},
      {"Acosh", std::acosh, {1, 2, 10}},
      {"Atanh", std::atanh, {-0.5, 0, 0.75}},
      {"Reciprocal", [](double x) { return 1 / x; }, {-2, 0.5, 0, kInfinity}},
      {"Sign", [](double x) { return std::isnan(x) ? x : double((x > 0) - (x < 0)); }, all}};
  for (const Function& function : functions) {
    for (const DataType type : kFloatTypes) {
      const Tensor x = make(type, {static_cast<int64_t>(function.inputs.size())}, function.inputs);
      const Tensor want = tabulate(type, x.shape(), [&](const Shape& i) { return function.f(at(x, i)); });
      EXPECT_EQ(difference(run({function.type}, {x}), want, epsilon(type)), "") << function.type << " " << name(type);
    }
  }
}

TEST(UnaryMath, Integers) {
  const auto i8 = [](const std::vector<double>& v) {
    return make(DataType::kInt8, {static_cast<int64_t>(v.size())}, v);
  };
  EXPECT_EQ(difference(run({"Abs"}, {i8({-5, 0, -128})}), i8({5, 0, -128})), "");
  EXPECT_EQ(difference(run({"Neg"}, {i8({-5, 0, -128})}), i8({5, 0, -128})), "");
  EXPECT_EQ(difference(run({"Sign"}, {i8({-5, 0, 9})}), i8({-1, 0, 1})), "");
  const Tensor u8 = make(DataType::kUInt8, {2}, {0, 200});
  EXPECT_EQ(difference(run({"Abs"}, {u8}), u8), "");
  EXPECT_EQ(difference(run({"Sign"}, {u8}), make(DataType::kUInt8, {2}, {0, 1})), "");
}

TEST(UnaryMath, NanAndInfinityTests) {
  for (const DataType type : kFloatTypes) {
    const Tensor x = make(type, {4}, {kNan, kInfinity, -kInfinity, 1});
    EXPECT_EQ(difference(run({"IsNaN"}, {x}), bools({4}, {1, 0, 0, 0})), "") << name(type);
    EXPECT_EQ(difference(run({"IsInf"}, {x}), bools({4}, {0, 1, 1, 0})), "") << name(type);
    EXPECT_EQ(difference(run({"IsInf", {{"detect_negative", int64_t{0}}}}, {x}), bools({4}, {0, 1, 0, 0})), "");
    EXPECT_EQ(difference(run({"IsInf", {{"detect_positive", int64_t{0}}}}, {x}), bools({4}, {0, 0, 1, 0})), "");
  }
}

TEST(VectorMath, DenseSweepsStayWithinTheStatedErrors) {
  struct Sweep {
    void (*vector)(const float*, float*, size_t);
    double (*exact)(double);
    double low, high, relative, absolute;
  };
  using namespace vector_math;
  const auto logistic = [](double x) { return 1 / (1 + std::exp(-x)); };
  const auto exact_silu = [](double x) { return x / (1 + std::exp(-x)); };
  const auto exact_gelu = [](double x) { return x * std::erfc(-x * std::sqrt(0.5)) / 2; };
  const std::vector<Sweep> sweeps = {{vector_math::exp, std::exp, -87, 88, 5e-7, 0},
                                     {vector_math::log, std::log, 1e-30, 1e30, 5e-7, 1e-7},
                                     {vector_math::tanh, std::tanh, -12, 12, 5e-7, 0},
                                     {vector_math::erf, std::erf, -6, 6, 1.6e-7, 0},
                                     {sigmoid, logistic, -80, 80, 1e-6, 0},
                                     {silu, exact_silu, -80, 80, 1e-6, 0},
                                     {gelu, exact_gelu, -10, 10, 1e-6, 3e-7}};
  constexpr size_t kPoints = 20011;  // no multiple of a vector
  for (size_t s = 0; s < sweeps.size(); ++s) {
    const Sweep& sweep = sweeps[s];
    std::vector<float> x(kPoints), y(kPoints);
    for (size_t i = 0; i < kPoints; ++i)
      x[i] = static_cast<float>(sweep.low + (sweep.high - sweep.low) * static_cast<double>(i) / (kPoints - 1));
    sweep.vector(x.data(), y.data(), kPoints);
    for (size_t i = 0; i < kPoints; ++i) {
      const double want = sweep.exact(x[i]);
      ASSERT_LE(std::abs(y[i] - want), sweep.absolute + sweep.relative * std::abs(want))
          << "sweep " << s << " at " << x[i];
    }
  }
}

}  // namespace
}  // namespace attune::testing
