#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

TEST(Where, AllWidthsAndBroadcasts) {
  const std::vector<std::array<Shape, 3>> shapes = {
      {Shape{}, Shape{}, Shape{}},        {Shape{3, 1}, Shape{4}, Shape{3, 4}},    {Shape{37}, Shape{37}, Shape{}},
      {Shape{2, 37}, Shape{}, Shape{37}}, {Shape{2, 1, 3}, Shape{5, 1}, Shape{1}}, {Shape{0}, Shape{1}, Shape{}}};
  std::vector<DataType> types = numeric_types();
  types.push_back(DataType::kBool);
  for (const DataType type : types) {
    for (const auto& [c, x, y] : shapes) {
      const Tensor condition =
          tabulate(DataType::kBool, c, [](const Shape& i) { return i.rank() && i.back() % 3 == 1; });
      const Tensor a = tabulate(type, x, [](const Shape& i) { return i.rank() ? i.back() % 100 : 1; });
      const Tensor b = tabulate(type, y, [](const Shape& i) { return i.rank() ? 100 - i.back() % 100 : 0; });
      const Tensor want = tabulate(type, broadcast(c, broadcast(x, y)),
                                   [&](const Shape& i) { return at(condition, i) != 0 ? at(a, i) : at(b, i); });
      EXPECT_EQ(difference(run({"Where"}, {condition, a, b}), want), "") << name(type) << c.to_string();
    }
  }
  const Tensor words = Tensor::from_strings({2}, {"a", "b"}), none = Tensor::from_strings({}, {"-"});
  EXPECT_EQ(run({"Where"}, {bools({2}, {0, 1}), words, none}).strings(), (std::vector<std::string>{"-", "b"}));
}

TEST(Where, TypesMustAgree) {
  EXPECT_THAT(failure({"Where"}, {bools({}, {1}), ints({1}), floats({}, {1})}), ::testing::HasSubstr("input 2"));
  EXPECT_THAT(failure({"Where"}, {ints({1}), ints({1}), ints({1})}), ::testing::HasSubstr("input 0: expected bool"));
}

}  // namespace
}  // namespace attune::testing
