#include <limits>

#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

// numpy.pad's index rules: the element of a line of n at position i.
int64_t mirrored(const std::string& mode, int64_t i, int64_t n) {
  if (mode == "edge") return std::min(std::max<int64_t>(i, 0), n - 1);
  if (mode == "wrap") return ((i % n) + n) % n;
  while (i < 0 || i >= n) {
    if (n == 1) return 0;
    if (i < 0) i = -i;
    if (i >= n) i = 2 * (n - 1) - i;
  }
  return i;
}

TEST(Pad, EveryModeWidthAndSign) {
  for (const DataType type : {DataType::kInt8, DataType::kFloat16, DataType::kFloat, DataType::kInt64}) {
    const Tensor x = counting({3, 4}, type), nine = make(type, {}, {9});
    for (const std::string mode : {"constant", "edge", "reflect", "wrap"}) {
      for (const Ints& pads :
           {Ints{1, 2, 0, 1}, Ints{0, 0, 0, 0}, Ints{5, 7, 9, 6}, Ints{-1, 1, 2, -2}, Ints{-2, -1, -1, -1}}) {
        const Shape shape = {3 + pads[0] + pads[2], 4 + pads[1] + pads[3]};
        const Tensor want = tabulate(type, shape, [&](const Shape& i) {
          const int64_t r = i[0] - pads[0], c = i[1] - pads[1];
          if (mode != "constant") return at(x, {mirrored(mode, r, 3), mirrored(mode, c, 4)});
          return r < 0 || r >= 3 || c < 0 || c >= 4 ? 9.0 : at(x, {r, c});
        });
        EXPECT_EQ(difference(run({"Pad", {{"mode", mode}}}, {x, ints(pads), nine}), want), "") << name(type) << mode;
      }
    }
  }
}

TEST(Pad, AxesAttributesAndDefaults) {
  const Tensor x = floats({1, 2}, {1, 2});
  EXPECT_EQ(difference(run({"Pad"}, {x, ints({1, 0}), Tensor(), ints({-1})}), floats({1, 3}, {0, 1, 2})), "");
  EXPECT_EQ(difference(run({"Pad", {{"pads", Ints{0, 1, 0, 0}}, {"value", 7.0f}}, 2}, {x}), floats({1, 3}, {7, 1, 2})),
            "");
  EXPECT_EQ(difference(run({"Pad"}, {floats({0}, {}), ints({1, 1}), floats({}, {3})}), floats({2}, {3, 3})), "");
  EXPECT_NE(failure({"Pad"}, {x, ints({1, 0, 0})}), "");
  EXPECT_THAT(failure({"Pad"}, {x, ints({0, -3, 0, 0})}), ::testing::HasSubstr("axis 1"));
  EXPECT_NE(failure({"Pad"}, {x, ints({std::numeric_limits<int64_t>::max(), 0, 0, 0})}), "");
  constexpr auto kMost = std::numeric_limits<int64_t>::max(), kLeast = std::numeric_limits<int64_t>::min();
  EXPECT_NE(failure({"Pad"}, {counting({3}), ints({kLeast, kMost})}), "");
  EXPECT_NE(failure({"Pad"}, {counting({3}), ints({kMost, kLeast})}), "");
  EXPECT_NE(failure({"Pad", {{"mode", std::string("edge")}}}, {floats({0}, {}), ints({1, 1})}), "");
  EXPECT_NE(failure({"Pad", {{"mode", std::string("round")}}}, {x, ints({0, 0, 0, 0})}), "");
}

}  // namespace
}  // namespace attune::testing
