#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

TEST(TensorScatter, LinearAndCircular) {
  const Tensor cache = counting({2, 1, 4, 2}),
               update = floats({2, 1, 3, 2}, {-1, -2, -3, -4, -5, -6, -7, -8, -9, -10, -11, -12});
  for (const std::string mode : {"linear", "circular"}) {
    const Tensor starts = mode == "linear" ? ints({1, 0}) : ints({3, 6});
    const Tensor want = tabulate(DataType::kFloat, cache.shape(), [&](const Shape& i) {
      for (int64_t t = 0; t < 3; ++t)
        if ((static_cast<int64_t>(at(starts, {i[0]})) + t) % 4 == i[2]) return at(update, {i[0], 0, t, i[3]});
      return at(cache, i);
    });
    EXPECT_EQ(difference(run({"TensorScatter", {{"mode", mode}}}, {cache, update, starts}), want), "") << mode;
  }
  EXPECT_EQ(difference(cache, counting({2, 1, 4, 2})), "");
  EXPECT_THAT(failure({"TensorScatter"}, {cache, update, ints({2, 0})}), ::testing::HasSubstr("up to 1"));
  EXPECT_NE(failure({"TensorScatter"}, {cache, update, ints({0})}), "");
  EXPECT_NE(failure({"TensorScatter"}, {cache, counting({2, 1, 5, 2})}), "");
  EXPECT_NE(failure({"TensorScatter"}, {cache, update, ints({-1, 0})}), "");
}

}  // namespace
}  // namespace attune::testing
