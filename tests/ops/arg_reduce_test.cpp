#include <limits>

#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

TEST(ArgReduce, EveryTypeAxisAndTie) {
  for (const DataType type : numeric_types()) {
    const Tensor x = tabulate(type, {3, 70, 2}, [](const Shape& i) { return (i[0] * 5 + i[1] * 7 + i[2]) % 11; });
    for (const int64_t axis : {0, 1, 2, -1})
      for (const bool last : {false, true})
        for (const bool largest : {false, true}) {
          const auto a = static_cast<size_t>(axis < 0 ? axis + 3 : axis);
          Shape shape = x.shape();
          shape[a] = 1;
          const Tensor want = tabulate(DataType::kInt64, shape, [&](const Shape& i) {
            Shape j = i;
            int64_t best = 0;
            double value = at(x, i);
            for (j[a] = 1; j[a] < x.dim(a); ++j[a]) {
              const double v = at(x, j);
              if ((largest ? v > value : v < value) || (last && v == value)) {
                value = v;
                best = j[a];
              }
            }
            return static_cast<double>(best);
          });
          const Call call{largest ? "ArgMax" : "ArgMin", {{"axis", axis}, {"select_last_index", int64_t{last}}}, 13};
          EXPECT_EQ(difference(run(call, {x}), want), "") << call.type << name(type) << axis << last;
        }
  }
}

TEST(ArgReduce, NanWinsAndShapes) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(run({"ArgMax"}, {floats({4}, {1, nan, 9, nan})}).to_int64(), (Ints{1}));
  EXPECT_EQ(run({"ArgMin"}, {floats({4}, {1, 0, nan, -9})}).to_int64(), (Ints{2}));
  EXPECT_EQ(run({"ArgMax"}, {floats({3}, {-inf, -inf, -inf})}).to_int64(), (Ints{0}));
  EXPECT_EQ(run({"ArgMax", {{"axis", int64_t{-1}}, {"keepdims", int64_t{0}}}}, {counting({2, 3})}).shape(), (Shape{2}));
  EXPECT_NE(failure({"ArgMax"}, {floats({0}, {})}), "");
  EXPECT_EQ(run({"ArgMax", {{"axis", int64_t{1}}}}, {floats({0, 3}, {})}).shape(), (Shape{0, 1}));
}

}  // namespace
}  // namespace attune::testing
