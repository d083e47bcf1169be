#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

TEST(DepthToSpace, BothOrdersAndBack) {
  const int64_t b = 2, channels = 3, height = 2, width = 5;
  const Tensor x = counting({2, channels * b * b, height, width});
  for (const std::string mode : {"DCR", "CRD"}) {
    const Tensor want = tabulate(DataType::kFloat, {2, channels, height * b, width * b}, [&](const Shape& i) {
      const int64_t block = (i[2] % b) * b + i[3] % b;
      const int64_t depth = mode == "DCR" ? block * channels + i[1] : i[1] * b * b + block;
      return at(x, {i[0], depth, i[2] / b, i[3] / b});
    });
    const Tensor got = run({"DepthToSpace", {{"blocksize", b}, {"mode", mode}}}, {x});
    EXPECT_EQ(difference(got, want), "") << mode;
    EXPECT_EQ(difference(run({"SpaceToDepth", {{"blocksize", b}, {"mode", mode}}, 28}, {got}), x), "") << mode;
  }
  EXPECT_NE(failure({"DepthToSpace", {{"blocksize", b}}}, {counting({1, 3, 2, 2})}), "");
  EXPECT_NE(failure({"SpaceToDepth", {{"blocksize", b}}}, {counting({1, 1, 3, 2})}), "");
  EXPECT_NE(failure({"SpaceToDepth", {{"blocksize", int64_t{0}}}}, {counting({1, 1, 2, 2})}), "");
}

}  // namespace
}  // namespace attune::testing
