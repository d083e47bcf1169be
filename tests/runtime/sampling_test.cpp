#include "runtime/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "tests/support/error_matchers.h"

namespace attune {
namespace {

constexpr float kOut = -std::numeric_limits<float>::infinity();

TEST(Sampling, Warping) {
  const auto warped = [](std::vector<float> scores, const std::function<void(GenerationOptions&)>& set) {
    GenerationOptions o;
    o.top_k = 0;
    set(o);
    warp(o, 1, scores);
    return scores;
  };
  using testing::ElementsAre;
  EXPECT_THAT(warped({1, 4, 2, 3}, [](auto& o) { o.top_k = 2; }), ElementsAre(kOut, 4, kOut, 3));
  EXPECT_THAT(warped({2, 4}, [](auto& o) { o.temperature = 2; }), ElementsAre(1, 2));
  const std::vector<float> p{std::log(0.1F), std::log(0.6F), std::log(0.3F)};
  EXPECT_THAT(warped(p, [](auto& o) { o.top_p = 0.5F; }), ElementsAre(kOut, p[1], kOut));
  EXPECT_THAT(warped(p, [](auto& o) { o.top_p = 0.8F; }), ElementsAre(kOut, p[1], p[2]));
  EXPECT_THAT(warped(p, [](auto& o) { o.min_p = 0.4F; }), ElementsAre(kOut, p[1], p[2]));
}

// Tokens that stay, as of transformers' TypicalLogitsWarper, EpsilonLogitsWarper and EtaLogitsWarper.
TEST(Sampling, ByInformationAndByLeastProbability) {
  const auto stay = [](size_t keep, const std::function<void(GenerationOptions&)>& set) {
    GenerationOptions o;
    o.top_k = 0;
    set(o);
    std::vector<float> scores{0.5F, 2, -1, 1, 0, -0.5F};
    warp(o, keep, scores);
    std::vector<size_t> out;
    for (size_t i = 0; i < scores.size(); ++i)
      if (std::isfinite(scores[i])) out.push_back(i);
    return out;
  };
  using testing::ElementsAre;
  EXPECT_THAT(stay(1, [](auto& o) { o.typical_p = 0.2F; }), ElementsAre(1, 3));
  EXPECT_THAT(stay(1, [](auto& o) { o.typical_p = 0.8F; }), ElementsAre(0, 1, 3));
  EXPECT_THAT(stay(2, [](auto& o) { o.typical_p = 0.95F; }), ElementsAre(0, 1, 3, 4, 5));
  EXPECT_THAT(stay(1, [](auto& o) { o.epsilon_cutoff = 0.05F; }), ElementsAre(0, 1, 3, 4));
  EXPECT_THAT(stay(1, [](auto& o) { o.epsilon_cutoff = 0.9F; }), ElementsAre(1));
  EXPECT_THAT(stay(2, [](auto& o) { o.epsilon_cutoff = 0.3F; }), ElementsAre(1, 3));
  EXPECT_THAT(stay(1, [](auto& o) { o.eta_cutoff = 0.1F; }), ElementsAre(0, 1, 3));
  EXPECT_THAT(stay(1, [](auto& o) { o.eta_cutoff = 0.5F; }), ElementsAre(1, 3));
  EXPECT_THAT(stay(2, [](auto& o) { o.eta_cutoff = 0.9F; }), ElementsAre(1, 3));
}

TEST(Sampling, DrawsAsOftenAsProbable) {
  const std::vector<float> scores{std::log(0.1F), std::log(0.6F), std::log(0.3F)};
  std::array<int, 3> count{};
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i)
    ++count[static_cast<size_t>(draw(scores, uniform(5, 0, 0, static_cast<uint64_t>(i))))];
  // Five standard deviations.
  for (size_t t = 0; t < 3; ++t) EXPECT_NEAR(count[t], kDraws * std::exp(scores[t]), 5 * std::sqrt(kDraws * 0.25)) << t;
}

// As many scores as a vocabulary has; some are suppressed.
std::vector<float> many_scores(uint32_t seed, float spread) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> scores(5003);
  for (float& s : scores) s = normal(random);
  for (size_t i = 0; i < scores.size(); i += 7) scores[i] = kOut;
  return scores;
}

std::vector<double> probabilities_of(const std::vector<float>& scores) {
  const double top = *std::max_element(scores.begin(), scores.end());
  std::vector<double> p;
  for (const float s : scores) p.push_back(std::exp(s - top));
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= sum;
  return p;
}

// Tokens in the order of their probability stay as long as `stays` says, given the probability of those before.
std::vector<float> kept(const std::vector<float>& scores, size_t keep,
                        const std::function<bool(double p, double best, double before)>& stays) {
  const auto p = probabilities_of(scores);
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p[a] > p[b]; });
  std::vector<float> out(scores.size(), kOut);
  double before = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i < keep || stays(p[order[i]], p[order[0]], before)) out[order[i]] = scores[order[i]];
    before += p[order[i]];
  }
  return out;
}

TEST(Sampling, KeepsOfManyTokensThoseThatTheDefinitionsKeep) {
  for (const float spread : {0.1F, 2.0F, 8.0F})
    for (const size_t keep : {size_t{1}, size_t{3}, size_t{1000}}) {
      SCOPED_TRACE(testing::Message() << "spread " << spread << ", at least " << keep);
      const std::vector<float> scores = many_scores(7, spread);
      const auto warped = [&](const std::function<void(GenerationOptions&)>& set) {
        GenerationOptions o;
        o.top_k = 0;
        set(o);
        std::vector<float> out = scores;
        warp(o, keep, out);
        return out;
      };
      for (const float part : {0.0F, 0.3F, 0.9F, 0.999F})
        EXPECT_EQ(warped([&](auto& o) { o.top_p = part; }),
                  kept(scores, keep, [&](double, double, double before) { return before < part; }))
            << "top_p " << part;
      EXPECT_EQ(warped([](auto& o) { o.min_p = 0.07F; }),
                kept(scores, keep, [](double p, double best, double) { return p >= 0.07F * best; }));
      EXPECT_EQ(warped([](auto& o) { o.epsilon_cutoff = 0.0003F; }),
                kept(scores, keep, [](double p, double, double) { return p >= 0.0003F; }));
      size_t count = 0;
      EXPECT_EQ(warped([](auto& o) { o.top_k = 50; }),
                kept(scores, keep, [&](double, double, double) { return count++ < 50 - std::min<size_t>(keep, 50); }));
    }
}

TEST(Sampling, DrawsTheTokenThatTheNumberFallsInto) {
  const std::vector<float> scores = many_scores(3, 3);
  const auto p = probabilities_of(scores);
  for (int i = 0; i < 500; ++i) {
    const double u = uniform(1, 0, 0, static_cast<uint64_t>(i));
    const auto token = static_cast<size_t>(draw(scores, u));
    const double before = std::accumulate(p.begin(), p.begin() + static_cast<std::ptrdiff_t>(token), 0.0);
    EXPECT_GT(p[token], 0);
    EXPECT_GE(u, before - 1e-6);
    EXPECT_LE(u, before + p[token] + 1e-6);
  }
  EXPECT_EQ(draw(std::vector<float>{kOut, 1, kOut}, 0.0), 1);
  EXPECT_EQ(draw(std::vector<float>{kOut, 1, kOut}, std::nextafter(1.0, 0.0)), 1);
}

TEST(Sampling, NothingIsDrawnFromScoresThatAreNotFinite) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    for (const float top_p : {1.0F, 0.5F}) {
      GenerationOptions o;
      o.top_p = top_p;
      std::vector<float> scores(3000, 1.0F);
      scores[2000] = bad;
      warp(o, 1, scores);
      EXPECT_THAT(test::error_of([&] { draw(scores, 0.5); }), testing::HasSubstr("not finite"));
    }
}

}  // namespace
}  // namespace attune
