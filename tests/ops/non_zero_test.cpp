#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

TEST(NonZero, IndicesOfEveryType) {
  for (const DataType type : numeric_types()) {
    const Tensor x = make(type, {2, 3}, {0, 1, 0, 2, 0, 3});
    EXPECT_EQ(difference(run({"NonZero"}, {x}), make(DataType::kInt64, {2, 3}, {0, 1, 1, 1, 0, 2})), "") << name(type);
  }
  EXPECT_EQ(run({"NonZero"}, {bools({3}, {0, 0, 0})}).shape(), (Shape{1, 0}));
  EXPECT_EQ(run({"NonZero"}, {floats({0, 2}, {})}).shape(), (Shape{2, 0}));
}

TEST(Compress, AlongAxesAndFlat) {
  const Tensor x = counting({3, 2});
  EXPECT_EQ(
      difference(run({"Compress", {{"axis", int64_t{0}}}}, {x, bools({3}, {0, 1, 1})}), floats({2, 2}, {2, 3, 4, 5})),
      "");
  EXPECT_EQ(difference(run({"Compress", {{"axis", int64_t{-1}}}}, {x, bools({2}, {0, 1})}), floats({3, 1}, {1, 3, 5})),
            "");
  EXPECT_EQ(difference(run({"Compress"}, {x, bools({4}, {0, 1, 0, 1})}), floats({2}, {1, 3})), "");
  EXPECT_EQ(run({"Compress"}, {x, bools({0}, {})}).shape(), (Shape{0}));
  EXPECT_NE(failure({"Compress", {{"axis", int64_t{1}}}}, {x, bools({3}, {0, 0, 1})}), "");
}

}  // namespace
}  // namespace attune::testing
