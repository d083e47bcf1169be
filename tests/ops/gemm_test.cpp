#include <limits>

#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

TEST(FusedGemm, ReluOfInfinities) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
  const auto y = run_node(
      {.type = "FusedGemm", .domain = "com.microsoft", .attributes = {{"activation", std::string("Relu")}}, .opset = 1},
      {floats({5, 1}, {-kInfinity, kInfinity, kNan, -2, 3}), floats({1, 1}, {1})});
  EXPECT_EQ(difference(y[0].tensor(), floats({5, 1}, {0, kInfinity, kNan, 0, 3})), "");
}

}  // namespace
}  // namespace attune::testing
