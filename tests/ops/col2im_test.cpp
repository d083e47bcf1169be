#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

TEST(Col2Im, AddsOverlappingBlocks) {
  // Blocks of 2x2 over a padded 3x4 image, steps of (1, 2), two channels.
  const Tensor x = random_tensor({1, 8, 12}, 5);
  const Call call{"Col2Im", {{"strides", Ints{1, 2}}, {"pads", Ints{1, 1, 1, 1}}}};
  std::vector<double> want(2 * 3 * 4, 0);
  for (int64_t c = 0; c < 2; ++c)
    for (int64_t r = 0; r < 2; ++r)
      for (int64_t s = 0; s < 2; ++s)
        for (int64_t i = 0; i < 4; ++i)
          for (int64_t j = 0; j < 3; ++j) {
            const int64_t row = i + r - 1, column = 2 * j + s - 1;
            if (row < 0 || row >= 3 || column < 0 || column >= 4) continue;
            want[static_cast<size_t>((c * 3 + row) * 4 + column)] += at(x, {0, c * 4 + r * 2 + s, i * 3 + j});
          }
  EXPECT_EQ(difference(run(call, {x, ints({3, 4}), ints({2, 2})}), floats({1, 2, 3, 4}, want), 1e-6), "");
  EXPECT_NE(failure(call, {x, ints({3, 4}), ints({9, 9})}), "");
  EXPECT_NE(failure(call, {x, ints({3, 8}), ints({2, 2})}), "");
}

}  // namespace
}  // namespace attune::testing
