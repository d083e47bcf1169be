#include <limits>

#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

TEST(OneHot, AxesTypesAndIndicesOutside) {
  const Tensor indices = make(DataType::kInt64, {2, 2}, {0, -1, 2, 7}), values = floats({2}, {-1, 5});
  for (const int64_t axis : {0, 1, 2, -1}) {
    const auto a = static_cast<size_t>(axis < 0 ? axis + 3 : axis);
    Shape shape = {2, 2};
    shape.insert(a, 3);
    const Tensor want = tabulate(DataType::kFloat, shape, [&](const Shape& i) {
      Shape j = i;
      j.erase(a);
      const double index = at(indices, j);
      return index == static_cast<double>(i[a]) || index + 3 == static_cast<double>(i[a]) ? 5 : -1;
    });
    EXPECT_EQ(difference(run({"OneHot", {{"axis", axis}}}, {indices, ints({3}), values}), want), "") << axis;
  }
  EXPECT_EQ(difference(run({"OneHot"}, {floats({1}, {1}), floats({}, {2}), ints({0, 1})}),
                       make(DataType::kInt64, {1, 2}, {0, 1})),
            "");
  EXPECT_NE(failure({"OneHot"}, {indices, ints({-1}), values}), "");
  EXPECT_NE(failure({"OneHot"}, {indices, ints({3}), floats({3}, {0, 1, 2})}), "");
  EXPECT_THAT(failure({"OneHot"}, {ints(Ints(9, 0)), ints({std::numeric_limits<int64_t>::max() / 2}), values}),
              ::testing::HasSubstr("too many"));
}

TEST(EyeLike, DiagonalsAndTypes) {
  const Tensor x = counting({2, 3}, DataType::kInt32);
  EXPECT_EQ(difference(run({"EyeLike"}, {x}), make(DataType::kInt32, {2, 3}, {1, 0, 0, 0, 1, 0})), "");
  EXPECT_EQ(
      difference(run({"EyeLike", {{"k", int64_t{1}}, {"dtype", int64_t{1}}}}, {x}), floats({2, 3}, {0, 1, 0, 0, 0, 1})),
      "");
  EXPECT_EQ(difference(run({"EyeLike", {{"k", int64_t{-1}}}}, {x}), make(DataType::kInt32, {2, 3}, {0, 0, 0, 1, 0, 0})),
            "");
  EXPECT_EQ(difference(run({"EyeLike", {{"k", std::numeric_limits<int64_t>::min()}}}, {x}),
                       make(DataType::kInt32, {2, 3}, std::vector<double>(6, 0))),
            "");
  EXPECT_NE(failure({"EyeLike"}, {counting({2, 2, 2})}), "");
}

}  // namespace
}  // namespace attune::testing
