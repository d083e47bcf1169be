// ai.attune::Attention against its formulas in float64.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/attention_cases.h"

namespace attune {
namespace {

using test::Array;
using test::AttentionCase;
using test::CaseGenerator;

// How far results may be from float64, relative to the largest value.
double tolerance(DataType type) {
  switch (type) {
    case DataType::kDouble:
      return 1e-12;
    case DataType::kFloat:
      return 1e-5;
    case DataType::kFloat16:
      return 4e-3;
    default:
      return 3e-2;
  }
}

void expect_close(const Tensor& got, const Array& expected, double relative, const char* what) {
  ASSERT_TRUE(got.defined()) << what;
  ASSERT_EQ(std::vector<int64_t>(got.shape().begin(), got.shape().end()), expected.shape) << what;
  const std::vector<double> values = got.to_double();
  double largest = 1;
  for (const double v : expected.values)
    if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
  for (size_t i = 0; i < values.size(); ++i) {
    const double e = expected.values[i], v = values[i];
    if (std::isfinite(e)) {
      ASSERT_NEAR(v, e, relative * largest) << what << " at " << i << " of " << got.shape().to_string();
    } else {
      ASSERT_TRUE(std::isnan(e) ? std::isnan(v) : v == e) << what << " at " << i << ": " << v << ", expected " << e;
    }
  }
}

// With `constant_weights` the projections' weights are constants of the model.
void expect_reference(const AttentionCase& c, DataType type, bool constant_weights = false) {
  SCOPED_TRACE(c.describe());
  std::vector<bool> constants(kAttentionInputs);
  for (size_t i = kAttentionQueryWeight; i <= kAttentionValueBias; ++i) constants[i] = constant_weights;
  const std::vector<Tensor> got = c.run(constants);
  const auto expected = c.reference();
  const double close = tolerance(type);
  expect_close(got[kAttentionContext], expected.context, close, "context");
  if (c.wanted[kAttentionPresentKey])
    expect_close(got[kAttentionPresentKey], expected.present_key, close, "present_key");
  if (c.wanted[kAttentionPresentValue])
    expect_close(got[kAttentionPresentValue], expected.present_value, close, "present_value");
  if (c.wanted[kAttentionWeights]) expect_close(got[kAttentionWeights], expected.weights, close, "weights");
  if (c.wanted[kAttentionNextPosition])
    expect_close(got[kAttentionNextPosition], expected.next_position, 0, "next_position");
}

class GeneratedAttention : public testing::TestWithParam<DataType> {};

TEST_P(GeneratedAttention, AgreesWithItsFormulas) {
  for (uint32_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    expect_reference(CaseGenerator(seed, GetParam()).next(), GetParam(), seed % 2 == 1);
    if (HasFatalFailure()) return;
  }
}

TEST_P(GeneratedAttention, AgreesBeyondOneBlock) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    expect_reference(CaseGenerator(seed, GetParam()).next(true), GetParam());
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, GeneratedAttention,
                         testing::Values(DataType::kFloat, DataType::kDouble, DataType::kFloat16, DataType::kBFloat16),
                         [](const auto& info) { return std::string(name(info.param)); });

// Blocks of queries and keys as large as they get.
TEST(Attention, AgreesWithManyQueries) {
  CaseGenerator g(1);
  AttentionCase c;
  c[kAttentionQuery] = g.normal({1, 1, 1030, 64});
  c[kAttentionKey] = g.normal({1, 1, 260, 64});
  c[kAttentionValue] = g.normal({1, 1, 260, 64});
  expect_close(c.run()[kAttentionContext], c.reference().context, 1e-6, "context");
}

// Scores by keys of width 1 against the query 1.
AttentionCase with_scores(std::vector<float> scores) {
  AttentionCase c;
  const auto n = static_cast<int64_t>(scores.size());
  c[kAttentionQuery] = Tensor::from<float>({1, 1, 1}, {1});
  c[kAttentionKey] = Tensor::from<float>({1, n, 1}, scores);
  c[kAttentionValue] = c[kAttentionKey];
  c.attributes["score"] = std::string("dot");
  c.wanted[kAttentionWeights] = true;
  return c;
}

TEST(Attention, TurnsScoresIntoWeights) {
  const auto out = with_scores({1.8f, 2.6f, -1.0f, 0.4f}).run();
  const auto weights = out[kAttentionWeights].to_double();
  EXPECT_THAT(weights, testing::Pointwise(testing::DoubleNear(5e-4), {0.283, 0.630, 0.017, 0.070}));
}

// Of one query and of many, which other kernels compute.
TEST(Attention, SmallWeightsAreAsPreciseAsLargeOnes) {
  for (const int64_t queries : {1, 20}) {
    std::vector<float> scores(228);
    for (size_t i = 0; i < scores.size(); ++i) scores[i] = -0.37F * static_cast<float>(i);
    AttentionCase c = with_scores(scores);
    c[kAttentionQuery] = Tensor::allocate(DataType::kFloat, {1, queries, 1});
    std::fill_n(c[kAttentionQuery].mutable_data<float>(), queries, 1.0F);
    const auto weights = c.run()[kAttentionWeights].to_double();
    double sum = 0;
    for (const float x : scores) sum += std::exp(static_cast<double>(x));
    for (size_t i = 0; i < weights.size(); ++i) {
      const double x = scores[i % scores.size()], expected = std::exp(x) / sum;
      EXPECT_NEAR(weights[i] / expected, 1, 1e-6 - 1.2e-7 * x) << x;
    }
  }
}

// Two keys far behind others, and far above them: what a row is counted from follows.
TEST(Attention, LateScoresAreAsPreciseAsEarlyOnes) {
  constexpr int64_t kQueries = 40, kKeys = 400, kWidth = 64;
  constexpr size_t kFirst = 200, kSecond = 390;
  std::vector<float> queries(kQueries * kWidth), keys(kKeys * kWidth), values(kKeys);
  for (size_t i = 0; i < kKeys; ++i) keys[i * kWidth] = i == kFirst || i == kSecond ? 0.0F : -80.0F;
  keys[kSecond * kWidth + 1] = 1;
  values[kSecond] = 1;
  for (size_t t = 0; t < kQueries; ++t) {
    queries[t * kWidth] = 1;
    queries[t * kWidth + 1] = 0.037F * static_cast<float>(t);
  }
  AttentionCase c;
  c[kAttentionQuery] = Tensor::from<float>({1, kQueries, kWidth}, queries);
  c[kAttentionKey] = Tensor::from<float>({1, kKeys, kWidth}, keys);
  c[kAttentionValue] = Tensor::from<float>({1, kKeys, 1}, values);
  c.attributes["score"] = std::string("dot");
  const auto out = c.run()[kAttentionContext].to_double();
  for (size_t t = 0; t < kQueries; ++t)
    EXPECT_NEAR(out[t], 1 / (1 + std::exp(-static_cast<double>(queries[t * kWidth + 1]))), 2.5e-7);
}

}  // namespace
}  // namespace attune
