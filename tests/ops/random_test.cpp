#include <algorithm>

#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

struct Moments {
  double mean = 0, variance = 0;
};
Moments moments(const Tensor& t) {
  Moments m;
  const std::vector<double> x = t.to_double();
  for (const double v : x) m.mean += v / static_cast<double>(x.size());
  for (const double v : x) m.variance += (v - m.mean) * (v - m.mean) / static_cast<double>(x.size());
  return m;
}

TEST(Random, MomentsAndRanges) {
  const Attributes shape = {{"shape", Ints{200, 500}}, {"seed", 1.0f}};
  Attributes uniform = shape, normal = shape;
  uniform.insert({{"low", -1.0f}, {"high", 3.0f}});
  normal.insert({{"mean", 2.0f}, {"scale", 3.0f}, {"dtype", int64_t{11}}});
  const Tensor u = run({"RandomUniform", uniform}, {}), n = run({"RandomNormal", normal}, {});
  EXPECT_EQ(n.type(), DataType::kDouble);
  EXPECT_NEAR(moments(u).mean, 1, 0.02);
  EXPECT_NEAR(moments(u).variance, 16.0 / 12, 0.03);
  EXPECT_NEAR(moments(n).mean, 2, 0.05);
  EXPECT_NEAR(moments(n).variance, 9, 0.2);
  const auto [low, high] = std::minmax_element(u.values<float>().begin(), u.values<float>().end());
  EXPECT_GE(*low, -1);
  EXPECT_LE(*high, 3);
}

TEST(Random, SeedsRepeatAndTheirLackDoesNot) {
  const Call seeded{"RandomUniformLike", {{"seed", 5.0f}}}, free{"RandomUniformLike"};
  const Tensor x = counting({40});
  EXPECT_EQ(difference(run(seeded, {x}), run(seeded, {x})), "");
  EXPECT_NE(difference(run(free, {x}), run(free, {x})), "");
  EXPECT_EQ(run({"RandomNormalLike", {{"dtype", int64_t{1}}}}, {ints({1, 2})}).type(), DataType::kFloat);
}

TEST(Random, BernoulliAndMultinomialFollowTheirProbabilities) {
  const Tensor p = tabulate(DataType::kFloat, {3, 20000}, [](const Shape& i) {
    return std::vector<double>{0, 0.3, 1}[static_cast<size_t>(i[0])];
  });
  const Tensor hits = run({"ReduceMean"}, {run({"Bernoulli", {{"seed", 2.0f}}}, {p}), ints({1})});
  EXPECT_EQ(hits.to_double()[0], 0);
  EXPECT_NEAR(hits.to_double()[1], 0.3, 0.02);
  EXPECT_EQ(hits.to_double()[2], 1);
  const Tensor logits = floats({1, 3}, {std::log(0.2), std::log(0.5), std::log(0.3)});
  const Tensor drawn = run({"Multinomial", {{"sample_size", int64_t{20000}}, {"seed", 3.0f}}}, {logits});
  std::vector<double> counts(3, 0);
  for (const int64_t c : drawn.to_int64()) ++counts.at(static_cast<size_t>(c));
  EXPECT_NEAR(counts[0] / 20000, 0.2, 0.02);
  EXPECT_NEAR(counts[1] / 20000, 0.5, 0.02);
}

TEST(Dropout, HandsOnUnlessInTraining) {
  const Tensor x = floats({1000}, std::vector<double>(1000, 2)), ratio = floats({}, {0.25});
  EXPECT_EQ(difference(run({"Dropout"}, {x, ratio}), x), "");
  const auto inference = run_all({"Dropout", {}, 13, 2}, {x, ratio, bools({}, {0})});
  EXPECT_EQ(difference(inference[1].tensor(), bools({1000}, std::vector<double>(1000, 1))), "");
  const auto training = run_all({"Dropout", {{"seed", int64_t{7}}}, 13, 2}, {x, ratio, bools({}, {1})});
  double kept = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    const bool keep = training[1].tensor().data<bool>()[i];
    kept += keep;
    EXPECT_FLOAT_EQ(training[0].tensor().data<float>()[i], keep ? 2 / 0.75f : 0);
  }
  EXPECT_NEAR(kept / 1000, 0.75, 0.06);
}

}  // namespace
}  // namespace attune::testing
