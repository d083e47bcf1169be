#include <limits>

#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

struct Case {
  std::string type;
  Attributes attributes;
  std::function<double(double)> f;
};

TEST(Activation, EveryFloatTypeAsItsFormula) {
  const auto clip01 = [](double x) { return std::min(1.0, std::max(0.0, x)); };
  const std::vector<Case> cases = {
      {"Relu", {}, [](double x) { return std::max(x, 0.0); }},
      {"LeakyRelu", {}, [](double x) { return x < 0 ? 0.01f * x : x; }},
      {"LeakyRelu", {{"alpha", 0.3f}}, [](double x) { return x < 0 ? 0.3f * x : x; }},
      {"ThresholdedRelu", {}, [](double x) { return x > 1 ? x : 0; }},
      {"Elu", {{"alpha", 2.0f}}, [](double x) { return x < 0 ? 2 * std::expm1(x) : x; }},
      {"Selu", {}, [](double x) { return 1.0507010221481323 * (x > 0 ? x : 1.6732631921768188 * std::expm1(x)); }},
      {"Celu", {{"alpha", 0.5f}}, [](double x) { return std::max(0.0, x) + std::min(0.0, 0.5 * std::expm1(x / 0.5)); }},
      {"HardSigmoid", {}, [&](double x) { return clip01(0.2f * x + 0.5); }},
      {"HardSwish", {}, [&](double x) { return x * clip01(x / 6 + 0.5); }},
      {"Sigmoid", {}, logistic},
      {"Swish", {}, [](double x) { return x * logistic(x); }},
      {"Swish", {{"alpha", 1.5f}}, [](double x) { return x * logistic(1.5 * x); }},
      {"Softplus", {}, [](double x) { return std::log1p(std::exp(-std::abs(x))) + std::max(x, 0.0); }},
      {"Softsign", {}, [](double x) { return x / (1 + std::abs(x)); }},
      {"Mish", {}, [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }},
      {"Gelu", {}, [](double x) { return x * std::erfc(-x * std::sqrt(0.5)) / 2; }},
      {"Gelu",
       {{"approximate", std::string("tanh")}},
       [](double x) { return x / 2 * (1 + std::tanh(std::sqrt(2 / 3.141592653589793) * (x + 0.044715 * x * x * x))); }},
      {"Shrink", {{"lambd", 1.0f}, {"bias", 0.5f}}, [](double x) { return x < -1  ? x + 0.5
                                                                          : x > 1 ? x - 0.5
                                                                                  : 0; }}};
  for (const Case& c : cases) {
    for (const DataType type : kFloatTypes) {
      const Tensor x =
          tabulate(type, {3, 19}, [](const Shape& i) { return static_cast<double>(i[0] * 19 + i[1]) / 4 - 7; });
      const Tensor want = tabulate(type, x.shape(), [&](const Shape& i) { return c.f(at(x, i)); });
      EXPECT_EQ(difference(run({c.type, c.attributes, 28}, {x}), want, 2 * epsilon(type)), "")
          << c.type << " " << name(type);
    }
  }
}

TEST(Activation, SaturateWithoutOverflowAndKeepNan) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = floats({5}, {-inf, -1000, 1000, inf, nan});
  EXPECT_EQ(difference(run({"Sigmoid"}, {x}), floats({5}, {0, 0, 1, 1, nan})), "");
  EXPECT_EQ(difference(run({"Softplus"}, {x}), floats({5}, {0, 0, 1000, inf, nan})), "");
  EXPECT_EQ(difference(run({"Relu"}, {x}), floats({5}, {0, 0, 1000, inf, nan})), "");
  EXPECT_EQ(difference(run({"Relu"}, {make(DataType::kInt32, {2}, {-3, 3})}), make(DataType::kInt32, {2}, {0, 3})), "");
}

TEST(Activation, PReluBroadcastsItsSlope) {
  const Tensor x = floats({2, 3}, {-1, 2, -3, 4, -5, 6}), slope = floats({3}, {0.5, 1, 2});
  EXPECT_EQ(difference(run({"PRelu"}, {x, slope}), floats({2, 3}, {-0.5, 2, -6, 4, -5, 6})), "");
}

TEST(Activation, UnknownFormIsRefused) {
  EXPECT_THAT(failure({"Gelu", {{"approximate", std::string("fast")}}}, {floats({}, {1})}),
              ::testing::HasSubstr("none or tanh"));
}

}  // namespace
}  // namespace attune::testing
