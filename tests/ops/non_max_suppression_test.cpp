#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

TEST(NonMaxSuppression, KeepsTheBestOfEachPile) {
  // Three boxes one on another, two apart; corners in any order.
  const Tensor boxes = floats({1, 5, 4}, {0, 0, 1, 1, 0, 0.1, 1, 1.1, 1, 0.9, 0, -0.1, 0, 10, 1, 11, 0, 100, 1, 101});
  const Tensor scores = floats({1, 1, 5}, {0.9, 0.75, 0.6, 0.95, 0.3});
  const auto select = [&](int64_t most, float overlap, float score) {
    return run({"NonMaxSuppression"},
               {boxes, scores, Tensor::scalar(most), Tensor::scalar(overlap), Tensor::scalar(score)})
        .to_int64();
  };
  EXPECT_EQ(select(9, 0.5f, 0), (Ints{0, 0, 3, 0, 0, 0, 0, 0, 4}));
  EXPECT_EQ(select(2, 0.5f, 0), (Ints{0, 0, 3, 0, 0, 0}));
  EXPECT_EQ(select(9, 0.5f, 0.5f), (Ints{0, 0, 3, 0, 0, 0}));
  EXPECT_EQ(select(9, 1.0f, 0).size(), 15u);
  EXPECT_TRUE(select(0, 0.5f, 0).empty());
  const Tensor centres = floats({1, 2, 4}, {0.5, 0.5, 1, 1, 0.6, 0.5, 1, 1});
  const Call call{"NonMaxSuppression", {{"center_point_box", int64_t{1}}}};
  EXPECT_EQ(
      run(call, {centres, floats({1, 1, 2}, {0.4, 0.5}), Tensor::scalar<int64_t>(5), Tensor::scalar(0.5f)}).to_int64(),
      (Ints{0, 0, 1}));
  EXPECT_NE(failure({"NonMaxSuppression"}, {floats({1, 2, 3}, std::vector<double>(6, 0)), scores}), "");
}

}  // namespace
}  // namespace attune::testing
