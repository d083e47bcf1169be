#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

Call resize(Attributes attributes) { return {"Resize", std::move(attributes), 19}; }

TEST(Resize, LinearHalfPixelAsItsFormula) {
  const Tensor x = random_tensor({1, 2, 5}, 4);
  for (const int64_t size : {3, 5, 9, 10}) {
    const Tensor got = run(resize({{"mode", std::string("linear")}}), {x, Tensor(), Tensor(), ints({1, 2, size})});
    const double scale = static_cast<double>(size) / 5;
    const Tensor want = tabulate(DataType::kFloat, {1, 2, size}, [&](const Shape& i) {
      const double position = std::min(std::max((static_cast<double>(i[2]) + 0.5) / scale - 0.5, 0.0), 4.0);
      const auto left = static_cast<int64_t>(position), right = std::min<int64_t>(left + 1, 4);
      const double t = position - static_cast<double>(left);
      return (1 - t) * at(x, {0, i[1], left}) + t * at(x, {0, i[1], right});
    });
    EXPECT_EQ(difference(got, want, 1e-6), "") << size;
  }
}

TEST(Resize, NearestRules) {
  const Tensor x = floats({4}, {0, 1, 2, 3});
  const auto nearest = [&](const std::string& rule) {
    return run(resize({{"mode", std::string("nearest")},
                       {"nearest_mode", rule},
                       {"coordinate_transformation_mode", std::string("asymmetric")}}),
               {x, Tensor(), floats({1}, {2})})
        .to_double();
  };
  EXPECT_EQ(nearest("floor"), (std::vector<double>{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(nearest("ceil"), (std::vector<double>{0, 1, 1, 2, 2, 3, 3, 3}));
  EXPECT_EQ(nearest("round_prefer_floor"), (std::vector<double>{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(nearest("round_prefer_ceil"), (std::vector<double>{0, 1, 1, 2, 2, 3, 3, 3}));
  EXPECT_EQ(run({"Upsample", {{"mode", std::string("nearest")}}, 9}, {x, floats({1}, {2})}).to_double(),
            nearest("floor"));
}

TEST(Resize, ConstantsStayConstantAndIntegersRound) {
  const Tensor x = floats({1, 1, 4, 4}, std::vector<double>(16, 7));
  for (const std::string mode : {"nearest", "linear", "cubic"})
    for (const int64_t antialias : {0, 1}) {
      if (mode == "nearest" && antialias) continue;
      const Tensor got =
          run(resize({{"mode", mode}, {"antialias", antialias}}), {x, Tensor(), floats({4}, {1, 1, 0.6, 1.7})});
      EXPECT_EQ(difference(got, floats({1, 1, 2, 6}, std::vector<double>(12, 7)), 1e-6), "") << mode;
    }
  const Tensor bytes = make(DataType::kUInt8, {2}, {0, 255});
  const Tensor got = run(resize({{"mode", std::string("cubic")}}), {bytes, Tensor(), Tensor(), ints({8})});
  EXPECT_EQ(got.to_double().front(), 0);
  EXPECT_EQ(got.to_double().back(), 255);
}

TEST(Resize, PoliciesAxesAndErrors) {
  const Tensor x = counting({2, 4, 6});
  const auto size = [&](const std::string& policy) {
    return run(resize({{"axes", Ints{1, 2}}, {"keep_aspect_ratio_policy", policy}}),
               {x, Tensor(), Tensor(), ints({8, 3})})
        .shape();
  };
  EXPECT_EQ(size("stretch"), (Shape{2, 8, 3}));
  EXPECT_EQ(size("not_larger"), (Shape{2, 2, 3}));
  EXPECT_EQ(size("not_smaller"), (Shape{2, 8, 12}));
  EXPECT_NE(failure(resize({}), {x, Tensor(), floats({2}, {1, 2})}), "");
  EXPECT_NE(failure(resize({}), {x, Tensor(), floats({3}, {1, 0, 1})}), "");
  EXPECT_NE(failure(resize({}), {x, Tensor(), floats({3}, {1, 1e30, 1})}), "");
  EXPECT_NE(failure(resize({{"mode", std::string("sharp")}}), {x, Tensor(), floats({3}, {1, 1, 1})}), "");
}

TEST(Resize, OfNothingOnlyToNothing) {
  const Call linear{"Resize", {{"mode", std::string("linear")}}};
  EXPECT_NE(failure(linear, {counting({0, 3}), Tensor(), Tensor(), ints({1, 3})}), "");
  EXPECT_NE(failure(linear, {counting({2}), Tensor(), floats({1}, {std::numeric_limits<double>::infinity()})}), "");
  EXPECT_EQ(run(linear, {counting({0, 3}), Tensor(), Tensor(), ints({0, 2})}).shape(), (Shape{0, 2}));
}

}  // namespace
}  // namespace attune::testing
