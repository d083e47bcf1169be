#include <limits>

#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

TEST(Clip, BoundsFromInputsOfEveryType) {
  for (const DataType type : numeric_types()) {
    const Tensor x = make(type, {5}, {0, 1, 5, 9, 100}), low = make(type, {}, {2}), high = make(type, {}, {8});
    EXPECT_EQ(difference(run({"Clip"}, {x, low, high}), make(type, {5}, {2, 2, 5, 8, 8})), "") << name(type);
    EXPECT_EQ(difference(run({"Clip"}, {x, Tensor(), high}), make(type, {5}, {0, 1, 5, 8, 8})), "") << name(type);
    EXPECT_EQ(difference(run({"Clip"}, {x, low}), make(type, {5}, {2, 2, 5, 9, 100})), "") << name(type);
    EXPECT_EQ(difference(run({"Clip"}, {x, high, low}), make(type, {5}, {2, 2, 2, 2, 2})), "") << name(type);
  }
}

TEST(Clip, AttributesUntilOpset10AndNan) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = floats({4}, {nan, -inf, 3, inf});
  EXPECT_EQ(difference(run({"Clip", {{"min", -1.0f}, {"max", 2.0f}}, 6}, {x}), floats({4}, {nan, -1, 2, 2})), "");
  EXPECT_EQ(difference(run({"Clip"}, {x}), x), "");
  EXPECT_THAT(failure({"Clip"}, {x, floats({2}, {1, 2})}), ::testing::HasSubstr("input 1: expected a scalar"));
}

}  // namespace
}  // namespace attune::testing
