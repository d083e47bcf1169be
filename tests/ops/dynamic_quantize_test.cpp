#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/ops/node_runner.h"

namespace attune::testing {
namespace {

using ::testing::ElementsAre;

struct Result {
  std::vector<int64_t> codes;
  float scale;
  int64_t zero_point;
};

Result quantize(std::vector<float> values) {
  const Shape shape{static_cast<int64_t>(values.size())};
  const auto y = run_node({.type = "DynamicQuantizeLinear", .outputs = 3},
                          {Tensor::from<float>(shape, std::span<const float>(values))});
  return {y[0].tensor().to_int64(), y[1].tensor().data<float>()[0], y[2].tensor().to_int64()[0]};
}

TEST(DynamicQuantizeLinear, TheRangeTakesZeroIn) {
  const Result positive = quantize({1}), negative = quantize({-1}), both = quantize({-85, 0, 170});
  EXPECT_THAT(positive.codes, ElementsAre(255));
  EXPECT_EQ(positive.scale, 1 / 255.0F);
  EXPECT_EQ(positive.zero_point, 0);
  EXPECT_THAT(negative.codes, ElementsAre(0));
  EXPECT_EQ(negative.zero_point, 255);
  EXPECT_THAT(both.codes, ElementsAre(0, 85, 255));
  EXPECT_EQ(both.scale, 1);
  EXPECT_EQ(both.zero_point, 85);
}

TEST(DynamicQuantizeLinear, HalvesGoToTheEvenInteger) {
  EXPECT_THAT(quantize({0.5F, 1.5F, 2.5F, 254.5F, 255}).codes, ElementsAre(0, 2, 2, 254, 255));
}

// As ONNX Runtime 1.32.
TEST(DynamicQuantizeLinear, OfNothingTheScaleIsOne) {
  for (const auto& values : {std::vector<float>{}, std::vector<float>{0, 0}}) {
    const Result r = quantize(values);
    EXPECT_THAT(r.codes, ::testing::Each(0));
    EXPECT_EQ(r.codes.size(), values.size());
    EXPECT_EQ(r.scale, 1);
    EXPECT_EQ(r.zero_point, 0);
  }
}

}  // namespace
}  // namespace attune::testing
