// What must hold for ai.attune::Attention whatever the numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/op.h"
#include "ops/support/philox.h"
#include "tests/support/attention_cases.h"

namespace attune {
namespace {

using test::AttentionCase;
using test::CaseGenerator;
using testing::DoubleNear;
using testing::Each;
using testing::Pointwise;

// Soft attention over generated states of spread `spread`; sizes beyond one block now and then.
AttentionCase soft_case(CaseGenerator& g, double spread = 1) {
  const int64_t b = 1 + g.below(2), h = 1 + g.below(3), tq = 1 + g.below(60), tk = 1 + g.below(200),
                e = 1 + g.below(40), f = g.chance(40) ? 32 : 1 + g.below(40);  // 32: read where they lie
  AttentionCase c;
  c[kAttentionQuery] = g.normal({b, h, tq, e}, spread);
  c[kAttentionKey] = g.normal({b, h, tk, e}, spread);
  c[kAttentionValue] = g.normal({b, h, tk, f}, spread);
  return c;
}

constexpr double kSpreads[] = {1, 100, 1e4};  // of states: scores go up to 1e8 times the width

// What float32 may differ by in a context.
double slack(const AttentionCase& c) {
  double largest = 1;
  for (const double v : c[kAttentionValue].to_double())
    if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
  return 1e-5 * largest;
}

std::vector<double> context(const AttentionCase& c) { return c.run()[kAttentionContext].to_double(); }
std::vector<double> weights(AttentionCase c) {
  c.wanted[kAttentionWeights] = true;
  return c.run()[kAttentionWeights].to_double();
}

// Rows of a (B, H, T, width) tensor in another order of T.
Tensor reorder(const Tensor& t, const std::vector<int64_t>& order) {
  Tensor out = t.clone();
  const int64_t width = t.dim(3), rows = t.dim(2);
  for (int64_t bh = 0; bh < t.dim(0) * t.dim(1); ++bh)
    for (int64_t i = 0; i < rows; ++i)
      std::copy_n(t.data<float>() + (bh * rows + order[static_cast<size_t>(i)]) * width, width,
                  out.mutable_data<float>() + (bh * rows + i) * width);
  return out;
}

class AttentionProperties : public testing::TestWithParam<uint32_t> {
 protected:
  CaseGenerator g_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Seeds, AttentionProperties, testing::Range(0U, 12U));

TEST_P(AttentionProperties, RowsSumToOne) {
  for (const double spread : kSpreads) {
    const AttentionCase c = soft_case(g_, spread);
    const auto w = weights(c);
    const auto n = static_cast<size_t>(c[kAttentionKey].dim(2));
    for (size_t i = 0; i < w.size(); i += n)
      EXPECT_NEAR(std::accumulate(w.begin() + static_cast<long>(i), w.begin() + static_cast<long>(i + n), 0.0), 1,
                  1e-5);
  }
}

TEST_P(AttentionProperties, ContextLiesBetweenTheValues) {
  for (const double spread : kSpreads) {
    const AttentionCase c = soft_case(g_, spread);
    const auto values = c[kAttentionValue].to_double();
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    EXPECT_THAT(context(c), Each(testing::AllOf(testing::Ge(*low - slack(c)), testing::Le(*high + slack(c)))));
  }
}

TEST_P(AttentionProperties, OrderOfTheMemoryDoesNotMatter) {
  for (const double spread : kSpreads) {
    AttentionCase c = soft_case(g_, spread);
    const auto before = context(c);
    std::vector<int64_t> order(static_cast<size_t>(c[kAttentionKey].dim(2)));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(GetParam()));
    c[kAttentionKey] = reorder(c[kAttentionKey], order);
    c[kAttentionValue] = reorder(c[kAttentionValue], order);
    EXPECT_THAT(context(c), Pointwise(DoubleNear(slack(c)), before));
  }
}

TEST_P(AttentionProperties, OnePositionGetsWeightOne) {
  for (const double spread : kSpreads) {
    AttentionCase c;
    c[kAttentionQuery] = g_.normal({2, 2, 9, 5}, spread);
    c[kAttentionKey] = g_.normal({2, 2, 1, 5}, spread);
    c[kAttentionValue] = g_.normal({2, 2, 1, 3}, spread);
    EXPECT_THAT(weights(c), Each(1.0));
    const auto out = context(c), v = c[kAttentionValue].to_double();
    for (size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], v[i / (9 * 3) * 3 + i % 3], slack(c));
  }
}

TEST_P(AttentionProperties, RepeatedStatesShareTheirWeight) {
  const auto twice = [](const Tensor& t) {
    Tensor out = Tensor::allocate(t.type(), {t.dim(0), t.dim(1), 2 * t.dim(2), t.dim(3)});
    const int64_t n = t.dim(2) * t.dim(3);
    for (int64_t bh = 0; bh < t.dim(0) * t.dim(1); ++bh)
      for (int64_t k = 0; k < 2; ++k)
        std::copy_n(t.data<float>() + bh * n, n, out.mutable_data<float>() + (2 * bh + k) * n);
    return out;
  };
  for (const double spread : kSpreads) {
    AttentionCase c = soft_case(g_, spread);
    const auto once = context(c);
    c[kAttentionKey] = twice(c[kAttentionKey]);
    c[kAttentionValue] = twice(c[kAttentionValue]);
    EXPECT_THAT(context(c), Pointwise(DoubleNear(slack(c)), once));
  }
}

TEST_P(AttentionProperties, PaddedPositionsMayHoldAnything) {
  AttentionCase c = soft_case(g_, g_.pick<double>({1, 100, 1e4}));
  const int64_t n = c[kAttentionKey].dim(2), batch = c[kAttentionKey].dim(0), heads = c[kAttentionKey].dim(1);
  std::vector<double> keep(static_cast<size_t>(batch * n));
  for (double& k : keep) k = g_.chance(60);
  for (int64_t b = 0; b < batch; ++b) keep[static_cast<size_t>(b * n)] = 1;
  c[kAttentionMask] = CaseGenerator::of({batch, 1, 1, n}, keep, DataType::kBool);
  const auto clean = context(c);
  const double close = slack(c);
  for (const auto input : {kAttentionKey, kAttentionValue}) {
    Tensor& t = c[input];
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t i = 0; i < n; ++i)
          if (keep[static_cast<size_t>(b * n + i)] == 0)
            std::fill_n(t.mutable_data<float>() + ((b * heads + h) * n + i) * t.dim(3), t.dim(3),
                        g_.pick<float>({NAN, INFINITY, -INFINITY}));
  }
  EXPECT_THAT(context(c), Pointwise(DoubleNear(close), clean));
}

// The largest score of a row comes late, again and again, beside rows where it comes first or nowhere.
TEST_P(AttentionProperties, ScoresMayRiseWithTheKeys) {
  constexpr int64_t kKeys = 600;
  const std::vector<double> directions{1, -1, 0, 1, 0.5, 0, 0, 1, -1, 1, 1, 0, 0, 0, 0, 0, -1, -1, 1, 0.25};
  const auto queries = static_cast<int64_t>(directions.size());
  for (const double rise : {0.01, 0.1, 3.0})
    for (const int64_t key_width : {1, 64}) {
      const int64_t width = g_.pick<int64_t>({32, 1 + g_.below(40)});
      AttentionCase c;
      c.attributes["scale"] = 1.0F;
      std::vector<double> query(static_cast<size_t>(queries * key_width)), keys(static_cast<size_t>(kKeys * key_width));
      for (size_t t = 0; t < directions.size(); ++t) query[t * static_cast<size_t>(key_width)] = directions[t];
      for (size_t i = 0; i < kKeys; ++i) keys[i * static_cast<size_t>(key_width)] = rise * static_cast<double>(i);
      c[kAttentionQuery] = CaseGenerator::of({1, 1, queries, key_width}, query, DataType::kFloat);
      c[kAttentionKey] = CaseGenerator::of({1, 1, kKeys, key_width}, keys, DataType::kFloat);
      c[kAttentionValue] = g_.normal({1, 1, kKeys, width});
      const std::vector<double> values = c[kAttentionValue].to_double();
      std::vector<double> expected;
      for (const double direction : directions) {
        std::vector<double> row(static_cast<size_t>(width));
        double sum = 0;
        for (size_t i = 0; i < kKeys; ++i) {
          const double last = direction > 0 ? kKeys - 1 : 0;
          const double weight = std::exp(direction * rise * (static_cast<double>(i) - last));
          sum += weight;
          for (size_t f = 0; f < row.size(); ++f) row[f] += weight * values[i * row.size() + f];
        }
        for (const double v : row) expected.push_back(v / sum);
      }
      // A key of 1800 has a last place of 1.2e-4.
      EXPECT_THAT(context(c), Pointwise(DoubleNear(rise > 1 ? 2e-4 : 1e-5), expected)) << rise << " " << width;
    }
}

TEST_P(AttentionProperties, CausalNeverSeesLaterValues) {
  AttentionCase c;
  const int64_t n = 3 + g_.below(90), e = g_.chance(40) ? 32 : 1 + g_.below(20);
  const double spread = g_.pick<double>({1, 100, 1e4});
  for (const auto input : {kAttentionQuery, kAttentionKey, kAttentionValue}) c[input] = g_.normal({1, 2, n, e}, spread);
  const double close = slack(c);
  c.attributes["causal"] = int64_t{1};
  const auto clean = context(c);
  const int64_t from = 1 + g_.below(n - 1);
  for (const auto input : {kAttentionKey, kAttentionValue})
    for (int64_t h = 0; h < 2; ++h)
      std::fill_n(c[input].mutable_data<float>() + (h * n + from) * e, (n - from) * e, NAN);
  const auto poisoned = context(c);
  for (int64_t h = 0; h < 2; ++h)
    for (int64_t i = h * n * e; i < (h * n + from) * e; ++i)
      EXPECT_NEAR(poisoned[static_cast<size_t>(i)], clean[static_cast<size_t>(i)], close);
}

TEST_P(AttentionProperties, ShiftingAllScoresChangesNothing) {
  for (const double spread : kSpreads) {
    AttentionCase c = soft_case(g_, spread);
    const auto before = context(c);
    c[kAttentionScoreBias] = Tensor::allocate(DataType::kFloat, {c[kAttentionQuery].dim(1)});
    std::fill_n(c[kAttentionScoreBias].mutable_data<float>(), c[kAttentionScoreBias].count(), 3.5F);
    EXPECT_THAT(context(c), Pointwise(DoubleNear(2 * slack(c)), before));
  }
}

TEST_P(AttentionProperties, DerivativeByAValueIsItsWeight) {
  AttentionCase c;
  CaseGenerator g(GetParam(), DataType::kDouble);
  c[kAttentionQuery] = g.normal({1, 1, 2, 3});
  c[kAttentionKey] = g.normal({1, 1, 5, 3});
  c[kAttentionValue] = g.normal({1, 1, 5, 1});
  const auto w = weights(c), before = context(c);
  constexpr double kStep = 1e-4;
  for (int64_t i = 0; i < 5; ++i) {
    AttentionCase moved = c;
    moved[kAttentionValue] = c[kAttentionValue].clone();
    moved[kAttentionValue].mutable_data<double>()[i] += kStep;
    const auto after = context(moved);
    for (size_t t = 0; t < 2; ++t) EXPECT_NEAR((after[t] - before[t]) / kStep, w[t * 5 + static_cast<size_t>(i)], 1e-8);
  }
}

TEST_P(AttentionProperties, DerivativeByAScoreIsTheSoftmaxJacobian) {
  CaseGenerator g(GetParam(), DataType::kDouble);
  AttentionCase c;  // scores are the keys: the query is 1
  c.attributes["score"] = std::string("dot");
  c[kAttentionQuery] = Tensor::from<double>({1, 1, 1, 1}, {1});
  c[kAttentionKey] = g.normal({1, 1, 6, 1});
  c[kAttentionValue] = g.normal({1, 1, 6, 1});
  const auto w = weights(c), v = c[kAttentionValue].to_double();
  constexpr double kStep = 1e-5;
  for (int64_t i = 0; i < 6; ++i) {
    const auto at = [&](double step) {
      AttentionCase moved = c;
      moved[kAttentionKey] = c[kAttentionKey].clone();
      moved[kAttentionKey].mutable_data<double>()[i] += step;
      return context(moved)[0];
    };
    const auto k = static_cast<size_t>(i);
    double expected = 0;
    for (size_t j = 0; j < 6; ++j) expected += w[k] * ((j == k) - w[j]) * v[j];
    EXPECT_NEAR((at(kStep) - at(-kStep)) / (2 * kStep), expected, 1e-8);
  }
}

double variance_of_scores(CaseGenerator& g, int64_t width, const char* score) {
  AttentionCase c;
  c[kAttentionQuery] = g.normal({1, 1, 64, width});
  c[kAttentionKey] = g.normal({1, 1, 64, width});
  c[kAttentionValue] = g.normal({1, 1, 64, 1});
  c.attributes["score"] = std::string(score);
  c.attributes["weights_output"] = std::string("raw");
  double sum = 0;
  const auto scores = weights(c);
  for (const double s : scores) sum += s * s;
  return sum / static_cast<double>(scores.size());
}

TEST_P(AttentionProperties, ScalingKeepsTheVarianceOfScores) {
  for (const int64_t width : {4, 64, 256}) {
    EXPECT_NEAR(variance_of_scores(g_, width, "dot") / static_cast<double>(width), 1, 0.5);
    EXPECT_NEAR(variance_of_scores(g_, width, "scaled_dot"), 1, 0.5);
  }
}

TEST_P(AttentionProperties, HardTakesTheFirstOfEqualScores) {
  AttentionCase c;
  const int64_t n = 5 + g_.below(60), e = 1 + g_.below(40);
  c[kAttentionQuery] = g_.normal({1, 1, 1, e});
  const Tensor key = g_.normal({1, 1, 1, e});
  c[kAttentionKey] = Tensor::allocate(DataType::kFloat, {1, 1, n, e});
  for (int64_t i = 0; i < n; ++i) std::copy_n(key.data<float>(), e, c[kAttentionKey].mutable_data<float>() + i * e);
  c[kAttentionValue] = g_.normal({1, 1, n, 2});
  c.attributes["alignment"] = std::string("hard");
  const int64_t first = g_.below(n - 1);
  std::vector<double> keep(static_cast<size_t>(n), 1);
  std::fill_n(keep.begin(), first, 0.0);
  c[kAttentionMask] = CaseGenerator::of({n}, keep, DataType::kBool);
  std::vector<double> expected(static_cast<size_t>(n), 0);
  expected[static_cast<size_t>(first)] = 1;
  EXPECT_EQ(weights(c), expected);
}

TEST(AttentionSampling, DrawsFollowTheWeights) {
  AttentionCase c;
  constexpr int64_t kDraws = 4000;
  c.attributes["alignment"] = std::string("hard");
  c.attributes["sample"] = int64_t{1};
  c.attributes["score"] = std::string("dot");
  c.attributes["seed"] = int64_t{7};
  c[kAttentionQuery] = Tensor::allocate(DataType::kFloat, {1, 1, kDraws, 1});
  std::fill_n(c[kAttentionQuery].mutable_data<float>(), kDraws, 1.0F);
  c[kAttentionKey] = Tensor::from<float>({1, 1, 4, 1}, {1.8F, 2.6F, -1.0F, 0.4F});
  c[kAttentionValue] = c[kAttentionKey];
  c[kAttentionMask] = Tensor::from<bool>({5 - 1}, {true, true, true, true});
  const auto w = weights(c);
  std::vector<double> share(4, 0);
  for (size_t i = 0; i < w.size(); ++i) share[i % 4] += w[i] / static_cast<double>(kDraws);
  EXPECT_THAT(share, Pointwise(DoubleNear(0.03), {0.283, 0.630, 0.017, 0.070}));
  EXPECT_EQ(weights(c), w);  // the same call gives the same draws
  c[kAttentionDraw] = Tensor::scalar<int64_t>(1);
  EXPECT_NE(weights(c), w);
}

// The most memory in use beside the operands, for n queries and n keys, and the weights where these are put out.
double extra_bytes(int64_t n, const char* shown) {
  constexpr int64_t kHeads = 2, kWidth = 32;
  CaseGenerator g(1);
  AttentionCase c;
  for (const auto input : {kAttentionQuery, kAttentionKey, kAttentionValue})
    c[input] = g.normal({1, kHeads, n, kWidth});
  if (shown) {
    c.wanted[kAttentionWeights] = true;
    c.attributes["weights_output"] = std::string(shown);
  }
  Graph graph;
  const Node* node = c.add_to(graph);
  const auto kernel = find_op("ai.attune", "Attention", 1)->prepare(SimpleContext(*node, 1));
  BufferPool pool;
  SimpleCall call({c[kAttentionQuery], c[kAttentionKey], c[kAttentionValue]}, shown ? kAttentionWeights + 1 : 1, &pool);
  for (const size_t present : {kAttentionPresentKey, kAttentionPresentValue})
    if (shown) call.set_wanted(present, false);
  kernel->run(call);
  const auto rows = static_cast<double>(!shown ? 0 : std::string(shown) == "head_mean" ? 1 : kHeads);
  return static_cast<double>(pool.peak_bytes()) - rows * static_cast<double>(n * n) * sizeof(float);
}

// As Tq * E + Tk, whatever is put out; the pool may give a quarter more than what is asked for.
TEST(AttentionMemory, GrowsWithTheSumOfTheLengths) {
  const double half = extra_bytes(1024, nullptr), whole = extra_bytes(2048, nullptr);
  EXPECT_LT(whole, 2.5 * half);
  const double lengths = 2 * 2048 * 32 * sizeof(float);
  EXPECT_LT(whole, 4 * lengths + omp_get_max_threads() * 100e3);  // weights would be 64 times `lengths`
  for (const char* shown : {"normalized", "head_mean"})
    EXPECT_LT(extra_bytes(2048, shown), 1.1 * whole + 0.25 * 2 * 2048.0 * 2048 * sizeof(float)) << shown;
}

// Known answers of the authors' Random123 distribution (kat_vectors).
TEST(Philox, GivesTheKnownAnswers) {
  static_assert(philox4x32_10({0, 0, 0, 0}, 0) == PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  EXPECT_EQ(philox4x32_10({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, ~uint64_t{0}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(AttentionMask, FarFillersMeanWhatTheyAre) {
  AttentionCase c;
  c.attributes["score"] = std::string("dot");
  c[kAttentionQuery] = Tensor::from<float>({1, 1, 1, 1}, {1});
  c[kAttentionKey] = Tensor::from<float>({1, 1, 2, 1}, {0, 1});
  c[kAttentionValue] = Tensor::from<float>({1, 1, 2, 1}, {10, 20});
  const double e = std::exp(1.0);
  // All masked by a finite filler: the softmax of the raw scores.
  c[kAttentionMask] = Tensor::from<float>({2}, {-10000, -10000});
  EXPECT_THAT(weights(c), Pointwise(DoubleNear(1e-3), {1 / (1 + e), e / (1 + e)}));
  // A sum that overflows is the lowest finite number, for both keys.
  const float lowest = std::numeric_limits<float>::lowest();
  c[kAttentionMask] = Tensor::from<float>({2}, {lowest, lowest});
  c[kAttentionKey] = Tensor::from<float>({1, 1, 2, 1}, {-1e38F, -2e38F});
  EXPECT_THAT(weights(c), Pointwise(DoubleNear(1e-6), {0.5, 0.5}));
  // -inf excludes: nothing is left.
  c[kAttentionMask] = Tensor::from<float>({2}, {-INFINITY, -INFINITY});
  EXPECT_THAT(weights(c), Each(0.0));
  EXPECT_THAT(context(c), Each(0.0));
  c.attributes["empty_row"] = std::string("mean");
  EXPECT_THAT(context(c), Each(DoubleNear(15, 1e-5)));
  // What is seen passes through.
  c[kAttentionMask] = Tensor::from<float>({2}, {NAN, 0});
  EXPECT_TRUE(std::isnan(context(c)[0]));
}

// One query and many, keys that fill vectors and some that don't.
TEST(AttentionMask, FarFillersExcludeBesideOtherKeys) {
  CaseGenerator g(1);
  for (const int64_t queries : {1, 20})
    for (const int64_t keys : {7, 16, 40, 300}) {
      const auto seen = static_cast<size_t>(keys / 2);
      AttentionCase c;
      c[kAttentionQuery] = g.normal({1, 1, queries, 8});
      c[kAttentionKey] = g.normal({1, 1, keys, 8});
      c[kAttentionValue] = g.normal({1, 1, keys, 8});
      std::vector<float> mask(static_cast<size_t>(keys));
      std::fill(mask.begin() + static_cast<long>(seen), mask.end(), -INFINITY);
      c[kAttentionMask] = Tensor::from<float>({keys}, mask);
      const std::vector<double> excluded = context(c);
      for (const float filler : {-1e4F, -1e9F, -1e20F, -1e30F, std::numeric_limits<float>::lowest()}) {
        std::fill(mask.begin() + static_cast<long>(seen), mask.end(), filler);
        c[kAttentionMask] = Tensor::from<float>({keys}, mask);
        EXPECT_THAT(context(c), Pointwise(DoubleNear(1e-6), excluded)) << filler << " " << queries << " " << keys;
      }
    }
}

}  // namespace
}  // namespace attune
