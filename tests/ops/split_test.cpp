#include <limits>

#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

std::vector<Shape> shapes(const std::vector<Datum>& outputs) {
  std::vector<Shape> all;
  for (const Datum& datum : outputs) all.push_back(datum.tensor().shape());
  return all;
}

TEST(Split, GivenAndEqualSizes) {
  const Tensor x = counting({2, 6});
  const auto given = run_all({"Split", {{"axis", int64_t{1}}}, 18, 3}, {x, ints({1, 0, 5})});
  EXPECT_EQ(shapes(given), (std::vector<Shape>{{2, 1}, {2, 0}, {2, 5}}));
  EXPECT_EQ(difference(given[2].tensor(), floats({2, 5}, {1, 2, 3, 4, 5, 7, 8, 9, 10, 11})), "");
  const auto equal = run_all({"Split", {{"axis", int64_t{-1}}, {"num_outputs", int64_t{4}}}, 18, 4}, {x});
  EXPECT_EQ(shapes(equal), (std::vector<Shape>{{2, 2}, {2, 2}, {2, 2}, {2, 0}}));
  const auto rows = run_all({"Split", {}, 13, 2}, {x});
  EXPECT_EQ(difference(rows[1].tensor(), floats({1, 6}, {6, 7, 8, 9, 10, 11})), "");
  EXPECT_EQ(shapes(run_all({"Split", {{"axis", int64_t{1}}, {"split", Ints{2, 4}}}, 11, 2}, {x})),
            (std::vector<Shape>{{2, 2}, {2, 4}}));
}

TEST(Split, SizesMustAddUp) {
  const Tensor x = counting({6});
  EXPECT_THAT(failure({"Split", {}, 18, 2}, {x, ints({1, 2})}), ::testing::HasSubstr("(1,2) of 6"));
  EXPECT_NE(failure({"Split", {}, 18, 2}, {x, ints({7, -1})}), "");
  EXPECT_NE(failure({"Split", {}, 18, 3}, {x, ints({2, 4})}), "");
}

TEST(Split, MorePartsThanElements) {
  const auto parts = run_all({"Split", {{"num_outputs", std::numeric_limits<int64_t>::max()}}, 18, 2}, {counting({4})});
  EXPECT_EQ(shapes(parts), (std::vector<Shape>{{1}, {1}}));
}

}  // namespace
}  // namespace attune::testing
