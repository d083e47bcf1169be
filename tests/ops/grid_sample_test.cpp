#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

// Positions of the pixels themselves give the tensor back, whatever the mode.
TEST(GridSample, PixelCentresGiveTheInputBack) {
  const Tensor x = random_tensor({2, 3, 4, 5}, 11);
  for (const bool align : {false, true})
    for (const std::string mode : {"nearest", "linear", "cubic"})
      for (const std::string padding : {"zeros", "border", "reflection"}) {
        const Tensor grid = tabulate(DataType::kFloat, {2, 4, 5, 2}, [&](const Shape& i) {
          const auto position = static_cast<double>(i[3] == 0 ? i[2] : i[1]), size = i[3] == 0 ? 5.0 : 4.0;
          return align ? 2 * position / (size - 1) - 1 : (2 * position + 1) / size - 1;
        });
        const Call call{
            "GridSample", {{"mode", mode}, {"padding_mode", padding}, {"align_corners", int64_t{align}}}, 22};
        EXPECT_EQ(difference(run(call, {x, grid}), x, 1e-5), "") << mode << padding << align;
      }
}

TEST(GridSample, OutsideByPadding) {
  const Tensor x = floats({1, 1, 1, 4}, {1, 2, 3, 4});
  // With aligned corners 2 pixels are 4/3: positions -2, 1.5, 5.
  const Tensor grid = floats({1, 1, 3, 2}, {-1 - 4.0 / 3, 0, 0, 0, 1 + 4.0 / 3, 0});
  const auto sample = [&](const std::string& padding) {
    return run({"GridSample", {{"padding_mode", padding}, {"align_corners", int64_t{1}}}, 22}, {x, grid});
  };
  EXPECT_EQ(difference(sample("zeros"), floats({1, 1, 1, 3}, {0, 2.5, 0}), 1e-5), "");
  EXPECT_EQ(difference(sample("border"), floats({1, 1, 1, 3}, {1, 2.5, 4}), 1e-5), "");
  EXPECT_EQ(difference(sample("reflection"), floats({1, 1, 1, 3}, {3, 2.5, 2}), 1e-5), "");
  EXPECT_NE(failure({"GridSample", {}, 22}, {x, floats({1, 1, 1, 3}, {0, 0, 0})}), "");
  const Tensor wild = floats({1, 1, 2, 2}, {1e30, 0, std::nan(""), 0});
  EXPECT_EQ(run({"GridSample", {}, 22}, {x, wild}).shape(), (Shape{1, 1, 1, 2}));
}

}  // namespace
}  // namespace attune::testing
