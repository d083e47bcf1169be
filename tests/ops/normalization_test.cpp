#include <gtest/gtest.h>

#include <limits>

#include "tests/ops/node_runner.h"

namespace attune::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

TEST(Softmax, SubtractsTheMaximumAndKeepsIeeeRules) {
  const double e1 = std::exp(-1.0);
  const struct {
    std::vector<float> x;
    std::vector<double> y;
  } rows[] = {
      {{1000, 999}, {1 / (1 + e1), e1 / (1 + e1)}}, {{-1e30F, 0}, {0, 1}},        {{-kInfinity, 3}, {0, 1}},
      {{-kInfinity, -kInfinity}, {NAN, NAN}},       {{kInfinity, 3}, {NAN, NAN}}, {{kNaN, 3}, {NAN, NAN}},
  };
  for (const auto& [x, y] : rows) {
    const Tensor t = Tensor::from<float>({1, 2}, std::span(x));
    EXPECT_LT(largest_error(run_node({.type = "Softmax"}, {t})[0].tensor(), y), 1e-6);
  }
  // The same in vectors.
  std::vector<float> all(70, -kInfinity), nan(70, 1.0F);
  nan[40] = kNaN;
  for (const auto& x : {all, nan})
    for (const double v :
         run_node({.type = "Softmax"}, {Tensor::from<float>({1, 70}, std::span(x))})[0].tensor().to_double())
      EXPECT_TRUE(std::isnan(v));
}

TEST(Softmax, EveryAxisInEveryForm) {
  const Tensor x = random_tensor({3, 37, 5}, 1, -20, 20);
  const std::vector<double> in = x.to_double();
  for (const bool logarithm : {false, true})
    for (const int64_t axis : {0, 1, 2, -1}) {
      const size_t a = static_cast<size_t>(axis < 0 ? axis + 3 : axis);
      const int64_t n = x.dim(a), inner = x.shape().count(a + 1, 3);
      std::vector<double> want(in.size());
      for (size_t i = 0; i < in.size(); ++i) {
        const size_t start = i - static_cast<size_t>(static_cast<int64_t>(i) / inner % n * inner);
        double sum = 0;
        for (int64_t k = 0; k < n; ++k) sum += std::exp(in[start + static_cast<size_t>(k * inner)] - in[i]);
        want[i] = logarithm ? -std::log(sum) : 1 / sum;
      }
      const auto y = run_node({.type = logarithm ? "LogSoftmax" : "Softmax", .attributes = {{"axis", axis}}}, {x});
      EXPECT_LT(largest_error(y[0].tensor(), want, logarithm ? 1.0 : 1e-30), 1e-5) << "axis " << axis;
    }
}

// x is (rows, n).
std::vector<double> normalized(const std::vector<double>& x, size_t n, bool rms, double epsilon, const Tensor& scale,
                               const Tensor* bias) {
  std::vector<double> y;
  for (size_t r = 0; r < x.size() / n; ++r) {
    double mean = 0, variance = 0;
    for (size_t i = 0; i < n; ++i) mean += rms ? 0 : x[r * n + i] / static_cast<double>(n);
    for (size_t i = 0; i < n; ++i) variance += std::pow(x[r * n + i] - mean, 2) / static_cast<double>(n);
    for (size_t i = 0; i < n; ++i)
      y.push_back((x[r * n + i] - mean) / std::sqrt(variance + epsilon) * scale.to_double()[i] +
                  (bias ? bias->to_double()[i] : 0));
  }
  return y;
}

TEST(LayerNormalization, FarFromZeroTheVarianceIsStillRight) {
  const Tensor x = random_tensor({4, 67}, 1, 999, 1001), scale = random_tensor({67}, 2), bias = random_tensor({67}, 3);
  const auto y =
      run_node({.type = "LayerNormalization", .attributes = {{"epsilon", 1e-6F}}, .outputs = 3}, {x, scale, bias});
  // The inputs are exact in float; the mean is not.
  EXPECT_LT(largest_error(y[0].tensor(), normalized(x.to_double(), 67, false, 1e-6, scale, &bias)), 2e-4);
}

TEST(ResidualNormalization, GivesBothKindsAndTheSum) {
  const Tensor x = random_tensor({2, 5, 48}, 1), residual = random_tensor({2, 5, 48}, 2),
               scale = random_tensor({48}, 3), bias = random_tensor({48}, 4);
  std::vector<double> sum = x.to_double();
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += residual.to_double()[i];
  for (const bool rms : {false, true}) {
    const Tensor b = rms ? Tensor() : bias;
    const Attributes attributes{
        {"kind", std::string(rms ? "rms" : "layer")}, {"epsilon", 1e-6F}, {"axis", int64_t{-1}}};
    const auto y = run_node(
        {.type = "ResidualNormalization", .domain = "ai.attune", .attributes = attributes, .opset = 1, .outputs = 2},
        {x, residual, scale, b});
    EXPECT_LT(largest_error(y[0].tensor(), normalized(sum, 48, rms, 1e-6, scale, rms ? nullptr : &bias)), 1e-5);
    EXPECT_LT(largest_error(y[1].tensor(), sum), 1e-6);
  }
}

TEST(SkipLayerNormalization, AddsSkipAndBiasBeforeAndRepeatsASkipWithoutBatch) {
  const Tensor x = random_tensor({2, 3, 16}, 1), skip = random_tensor({3, 16}, 2), scale = random_tensor({16}, 3),
               beta = random_tensor({16}, 4), bias = random_tensor({16}, 5);
  std::vector<double> sum = x.to_double();
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += skip.to_double()[i % 48] + bias.to_double()[i % 16];
  const auto y = run_node({.type = "SkipLayerNormalization",
                           .domain = "com.microsoft",
                           .attributes = {{"epsilon", 1e-5F}},
                           .opset = 1,
                           .outputs = 4},
                          {x, skip, scale, beta, bias});
  EXPECT_LT(largest_error(y[0].tensor(), normalized(sum, 16, false, 1e-5, scale, &beta)), 1e-5);
  EXPECT_LT(largest_error(y[3].tensor(), sum), 1e-6);
}

}  // namespace
}  // namespace attune::testing
