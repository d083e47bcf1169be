#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

TEST(Expand, BroadcastsBothWays) {
  for (const DataType type : {DataType::kInt8, DataType::kFloat16, DataType::kFloat, DataType::kInt64}) {
    const std::vector<std::pair<Shape, Ints>> rows = {{{3, 1}, {2, 1, 6}}, {{3, 1}, {1, 4}}, {{2, 3}, {1}},
                                                      {{}, {2, 2}},        {{1}, {0}},       {{1, 5}, {3, 5}},
                                                      {{2, 3}, {2, 3}}};
    for (const auto& [shape, target] : rows) {
      const Tensor x = counting(shape, type);
      const Tensor want = tabulate(type, broadcast(shape, Shape(target)), [&](const Shape& i) { return at(x, i); });
      EXPECT_EQ(difference(run({"Expand"}, {x, ints(target)}), want), "") << shape.to_string();
    }
  }
  EXPECT_THAT(failure({"Expand"}, {counting({2}), ints({3})}), ::testing::HasSubstr("(2) and (3)"));
  EXPECT_NE(failure({"Expand"}, {counting({1}), ints({-1})}), "");
  EXPECT_THAT(failure({"Expand"}, {counting({1, 1}), ints({int64_t{1} << 40, int64_t{1} << 40})}),
              ::testing::HasSubstr("too many"));
}

TEST(Tile, RepeatsEveryAxis) {
  const Tensor x = counting({2, 3, 1});
  for (const Ints& repeats : {Ints{1, 1, 1}, Ints{2, 3, 4}, Ints{1, 2, 1}, Ints{0, 1, 1}}) {
    Shape shape = x.shape();
    for (size_t i = 0; i < 3; ++i) shape[i] *= repeats[i];
    const Tensor want = tabulate(DataType::kFloat, shape, [&](const Shape& i) {
      return at(x, {i[0] % 2, i[1] % 3, 0});
    });
    EXPECT_EQ(difference(run({"Tile"}, {x, ints(repeats)}), want), "");
  }
  EXPECT_NE(failure({"Tile"}, {x, ints({1, 2})}), "");
  EXPECT_NE(failure({"Tile"}, {x, ints({1, -2, 1})}), "");
  EXPECT_NE(failure({"Tile"}, {x, ints({int64_t{1} << 62, 4, 4})}), "");
}

}  // namespace
}  // namespace attune::testing
