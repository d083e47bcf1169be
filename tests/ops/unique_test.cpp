#include <limits>

#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

TEST(Unique, SortedAndByOccurrence) {
  for (const DataType type : numeric_types()) {
    const Tensor x = make(type, {2, 3}, {2, 1, 1, 3, 4, 3});
    const auto sorted = run_all({"Unique", {}, 11, 4}, {x});
    EXPECT_EQ(difference(sorted[0].tensor(), make(type, {4}, {1, 2, 3, 4})), "") << name(type);
    EXPECT_EQ(sorted[1].tensor().to_int64(), (Ints{1, 0, 3, 4}));
    EXPECT_EQ(sorted[2].tensor().to_int64(), (Ints{1, 0, 0, 2, 3, 2}));
    EXPECT_EQ(sorted[3].tensor().to_int64(), (Ints{2, 1, 2, 1}));
    const auto seen = run_all({"Unique", {{"sorted", int64_t{0}}}, 11, 4}, {x});
    EXPECT_EQ(difference(seen[0].tensor(), make(type, {4}, {2, 1, 3, 4})), "") << name(type);
    EXPECT_EQ(seen[1].tensor().to_int64(), (Ints{0, 1, 3, 4}));
    EXPECT_EQ(seen[2].tensor().to_int64(), (Ints{0, 1, 1, 2, 3, 2}));
    EXPECT_EQ(seen[3].tensor().to_int64(), (Ints{1, 2, 2, 1}));
  }
}

TEST(Unique, SlicesNanAndStrings) {
  const Tensor x = floats({2, 4, 2}, {1, 1, 0, 1, 2, 1, 0, 1, 1, 1, 0, 1, 2, 1, 0, 1});
  const auto slices = run_all({"Unique", {{"axis", int64_t{1}}}, 11, 4}, {x});
  EXPECT_EQ(difference(slices[0].tensor(), floats({2, 3, 2}, {0, 1, 1, 1, 2, 1, 0, 1, 1, 1, 2, 1})), "");
  EXPECT_EQ(slices[1].tensor().to_int64(), (Ints{1, 0, 2}));
  EXPECT_EQ(slices[2].tensor().to_int64(), (Ints{1, 0, 2, 0}));
  EXPECT_EQ(slices[3].tensor().to_int64(), (Ints{2, 1, 1}));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(difference(run({"Unique"}, {floats({4}, {nan, 2, nan, 1})}), floats({3}, {1, 2, nan})), "");
  EXPECT_EQ(run({"Unique"}, {Tensor::from_strings({3}, {"b", "a", "b"})}).strings(),
            (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(run({"Unique"}, {floats({0}, {})}).shape(), (Shape{0}));
}

}  // namespace
}  // namespace attune::testing
