#include <algorithm>
#include <limits>
#include <numeric>

#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

TEST(TopK, EveryTypeAxisAndDirectionWithTies) {
  for (const DataType type : numeric_types()) {
    const Tensor x =
        tabulate(type, {2, 300, 2}, [](const Shape& i) { return (i[0] * 31 + i[1] * 37 + i[2] * 5) % 101; });
    for (const int64_t k : {1, 7, 40, 300})
      for (const bool largest : {true, false}) {
        const Call call{"TopK", {{"axis", int64_t{1}}, {"largest", int64_t{largest}}}, 11, 2};
        const auto got = run_all(call, {x, ints({k})});
        const Tensor want = tabulate(DataType::kInt64, {2, k, 2}, [&](const Shape& i) {
          std::vector<int64_t> order(300);
          std::iota(order.begin(), order.end(), 0);
          std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
            const int64_t u = (i[0] * 31 + a * 37 + i[2] * 5) % 101, v = (i[0] * 31 + b * 37 + i[2] * 5) % 101;
            return largest ? u > v : u < v;
          });
          return static_cast<double>(order[static_cast<size_t>(i[1])]);
        });
        EXPECT_EQ(difference(got[1].tensor(), want), "") << name(type) << k << largest;
        EXPECT_EQ(difference(run({"GatherElements", {{"axis", int64_t{1}}}}, {x, want}), got[0].tensor()), "");
      }
  }
}

TEST(TopK, NanEmptyAndOldForm) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = floats({5}, {1, nan, 3, nan, 2});
  const auto largest = run_all({"TopK", {}, 11, 2}, {x, ints({3})});
  EXPECT_EQ(largest[1].tensor().to_int64(), (Ints{1, 3, 2}));
  const auto smallest = run_all({"TopK", {{"largest", int64_t{0}}}, 11, 2}, {x, ints({4})});
  EXPECT_EQ(smallest[1].tensor().to_int64(), (Ints{0, 4, 2, 1}));
  std::vector<double> many(300, 0);
  many[200] = nan;
  many[100] = 5;
  EXPECT_EQ(run_all({"TopK", {}, 11, 2}, {floats({300}, many), ints({2})})[1].tensor().to_int64(), (Ints{200, 100}));
  EXPECT_EQ(run_all({"TopK", {{"k", int64_t{1}}}, 1, 2}, {floats({2}, {1, 2})})[1].tensor().to_int64(), (Ints{1}));
  EXPECT_EQ(run_all({"TopK", {}, 11, 2}, {x, ints({0})})[0].tensor().shape(), (Shape{0}));
  EXPECT_THAT(failure({"TopK", {}, 11, 2}, {x, ints({6})}), ::testing::HasSubstr("k from 0 to 5"));
}

}  // namespace
}  // namespace attune::testing
