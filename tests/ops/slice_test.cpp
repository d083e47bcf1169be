#include <limits>

#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max(), kMin = std::numeric_limits<int64_t>::min();

// Python's range(*slice(start, end, step).indices(size)).
Ints indices(int64_t start, int64_t end, int64_t step, int64_t size) {
  const auto clamp = [&](int64_t i) {
    if (i < 0) i += size;
    return step > 0 ? std::min(std::max<int64_t>(i, 0), size) : std::min(std::max<int64_t>(i, -1), size - 1);
  };
  Ints out;
  const int64_t stop = clamp(end);
  for (int64_t i = clamp(start); step > 0 ? i < stop : i > stop;) {
    out.push_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return out;
}

TEST(Slice, EveryStartEndStep) {
  const Tensor x = counting({3, 5});
  for (const int64_t start : {kMin, int64_t{-6}, int64_t{-2}, int64_t{0}, int64_t{3}, int64_t{7}, kMax})
    for (const int64_t end : {kMin, int64_t{-5}, int64_t{-1}, int64_t{0}, int64_t{4}, int64_t{9}, kMax})
      for (const int64_t step : {kMin, int64_t{-2}, int64_t{-1}, int64_t{1}, int64_t{3}, kMax}) {
        const Ints picks = indices(start, end, step, 5);
        const Tensor want = tabulate(DataType::kFloat, {3, static_cast<int64_t>(picks.size())}, [&](const Shape& i) {
          return at(x, {i[0], picks[static_cast<size_t>(i[1])]});
        });
        EXPECT_EQ(difference(run({"Slice"}, {x, ints({start}), ints({end}), ints({-1}), ints({step})}), want), "")
            << start << ":" << end << ":" << step;
      }
}

TEST(Slice, SeveralAxesWidthsAndForms) {
  for (const DataType type : {DataType::kInt8, DataType::kFloat16, DataType::kInt32, DataType::kDouble}) {
    const Tensor x = counting({2, 3, 4}, type);
    const Tensor want = tabulate(type, {2, 2, 2}, [&](const Shape& i) {
      return at(x, {i[0], 2 - i[1], 1 + 2 * i[2]});
    });
    EXPECT_EQ(difference(run({"Slice"}, {x, ints({-1, 1}), ints({0, 4}), ints({1, 2}), ints({-1, 2})}), want), "")
        << name(type);
  }
  const Tensor x = counting({4, 3});
  const Tensor want = floats({2, 3}, {3, 4, 5, 6, 7, 8});
  EXPECT_EQ(difference(run({"Slice"}, {x, ints({1}), ints({3})}), want), "");
  EXPECT_EQ(difference(run({"Slice", {{"starts", Ints{1}}, {"ends", Ints{3}}, {"axes", Ints{0}}}, 9}, {x}), want), "");
  EXPECT_EQ(run({"Slice"}, {x, Tensor::from<int32_t>({1}, {1}), Tensor::from<int32_t>({1}, {3})}).raw(),
            x.raw() + 3 * sizeof(float))
      << "a block of rows is a view";
  EXPECT_EQ(run({"Slice"}, {Tensor::from_strings({3}, {"a", "b", "c"}), ints({1}), ints({9})}).strings(),
            (std::vector<std::string>{"b", "c"}));
}

TEST(Slice, Errors) {
  const Tensor x = counting({4, 3});
  EXPECT_THAT(failure({"Slice"}, {x, ints({0}), ints({1}), ints({0}), ints({0})}), ::testing::HasSubstr("step of 0"));
  EXPECT_THAT(failure({"Slice"}, {x, ints({0}), ints({1}), ints({2})}), ::testing::HasSubstr("axis 2"));
  EXPECT_THAT(failure({"Slice"}, {x, ints({0}), ints({1, 2})}), ::testing::HasSubstr("input 2"));
  EXPECT_THAT(failure({"Slice"}, {x, ints({0, 0, 0}), ints({1, 2, 3})}), ::testing::HasSubstr("input 1"));
}

}  // namespace
}  // namespace attune::testing
