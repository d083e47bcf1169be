#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

TEST(Reshape, ZerosMinusOneAndAllowZero) {
  const Tensor x = counting({2, 3, 4});
  const std::vector<std::pair<Ints, Shape>> rows = {{{24}, {24}},
                                                    {{-1}, {24}},
                                                    {{0, -1}, {2, 12}},
                                                    {{4, 0, -1}, {4, 3, 2}},
                                                    {{0, 0, 2, -1}, {2, 3, 2, 2}},
                                                    {{1, 24, 1}, {1, 24, 1}}};
  for (const auto& [target, want] : rows) {
    const Tensor got = run({"Reshape"}, {x, ints(target)});
    EXPECT_EQ(got.shape(), want);
    EXPECT_EQ(got.raw(), x.raw());
  }
  EXPECT_EQ(run({"Reshape"}, {floats({0, 3}, {}), ints({3, -1})}).shape(), (Shape{3, 0}));
  EXPECT_EQ(run({"Reshape", {{"allowzero", int64_t{1}}}}, {floats({0, 3}, {}), ints({3, 0})}).shape(), (Shape{3, 0}));
  EXPECT_EQ(run({"Reshape"}, {floats({1}, {5}), ints({})}).shape(), Shape());
  EXPECT_EQ(run({"Reshape", {{"shape", Ints{4, 6}}}, 1}, {x}).shape(), (Shape{4, 6}));
}

TEST(Reshape, ImpossibleTargetsNameBothShapes) {
  const Tensor x = counting({2, 3});
  for (const Ints& target : {Ints{4}, Ints{-1, -1}, Ints{-1, 4}, Ints{0, 0, 0}, Ints{-2, 3}, Ints{int64_t{1} << 62, 8}})
    EXPECT_THAT(failure({"Reshape"}, {x, ints(target)}), ::testing::HasSubstr("shape (2,3) can't become"));
  EXPECT_NE(failure({"Reshape", {{"allowzero", int64_t{1}}}}, {floats({0, 3}, {}), ints({0, -1})}), "");
}

TEST(Flatten, AxesFromBothEnds) {
  const Tensor x = counting({2, 3, 4});
  const std::vector<std::pair<int64_t, Shape>> rows = {{0, {1, 24}}, {1, {2, 12}}, {2, {6, 4}},
                                                       {3, {24, 1}}, {-1, {6, 4}}, {-3, {1, 24}}};
  for (const auto& [axis, want] : rows) EXPECT_EQ(run({"Flatten", {{"axis", axis}}}, {x}).shape(), want) << axis;
  EXPECT_EQ(run({"Flatten", {{"axis", int64_t{0}}}}, {floats({}, {1})}).shape(), (Shape{1, 1}));
  EXPECT_THAT(failure({"Flatten", {{"axis", int64_t{4}}}}, {x}), ::testing::HasSubstr("axis 4"));
}

TEST(Squeeze, AxesAsInputOrAttributeOrNone) {
  const Tensor x = counting({1, 3, 1, 4});
  EXPECT_EQ(run({"Squeeze"}, {x}).shape(), (Shape{3, 4}));
  EXPECT_EQ(run({"Squeeze"}, {x, ints({-2})}).shape(), (Shape{1, 3, 4}));
  EXPECT_EQ(run({"Squeeze"}, {x, ints({})}).shape(), x.shape());
  EXPECT_EQ(run({"Squeeze", {{"axes", Ints{0, 2}}}, 11}, {x}).shape(), (Shape{3, 4}));
  EXPECT_THAT(failure({"Squeeze"}, {x, ints({1})}), ::testing::HasSubstr("axis 1 of shape (1,3,1,4)"));
  EXPECT_THAT(failure({"Squeeze"}, {x, ints({4})}), ::testing::HasSubstr("axis 4"));
  EXPECT_THAT(failure({"Squeeze"}, {x, ints({0, -4})}), ::testing::HasSubstr("twice"));
}

TEST(Unsqueeze, AxesInAnyOrder) {
  const Tensor x = counting({3, 4});
  EXPECT_EQ(run({"Unsqueeze"}, {x, ints({0})}).shape(), (Shape{1, 3, 4}));
  EXPECT_EQ(run({"Unsqueeze"}, {x, ints({4, 0, -3})}).shape(), (Shape{1, 3, 1, 4, 1}));
  EXPECT_EQ(run({"Unsqueeze", {{"axes", Ints{1}}}, 11}, {x}).shape(), (Shape{3, 1, 4}));
  EXPECT_NE(failure({"Unsqueeze"}, {x}), "");
  EXPECT_NE(failure({"Unsqueeze"}, {x, ints({0, 0})}), "");
  EXPECT_NE(failure({"Unsqueeze"}, {counting({1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}), ints({0})}), "");
}

TEST(Identity, HandsItsInputOn) {
  const Tensor x = counting({3});
  EXPECT_EQ(run({"Identity"}, {x}).raw(), x.raw());
}

}  // namespace
}  // namespace attune::testing
