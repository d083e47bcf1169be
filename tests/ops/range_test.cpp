#include <limits>

#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

Tensor range(DataType type, double start, double limit, double delta) {
  return run({"Range"}, {make(type, {}, {start}), make(type, {}, {limit}), make(type, {}, {delta})});
}

TEST(Range, UpAndDownInEveryType) {
  for (const DataType type :
       {DataType::kFloat, DataType::kDouble, DataType::kInt16, DataType::kInt32, DataType::kInt64}) {
    EXPECT_EQ(difference(range(type, 1, 8, 3), make(type, {3}, {1, 4, 7})), "") << name(type);
    EXPECT_EQ(difference(range(type, 1, 7, 3), make(type, {2}, {1, 4})), "") << name(type);
    EXPECT_EQ(difference(range(type, 10, 4, -2), make(type, {3}, {10, 8, 6})), "") << name(type);
    EXPECT_EQ(range(type, 5, 5, 1).count(), 0) << name(type);
    EXPECT_EQ(range(type, 5, 3, 1).count(), 0) << name(type);
  }
  EXPECT_EQ(difference(range(DataType::kFloat, 0, 1, 0.25), floats({4}, {0, 0.25, 0.5, 0.75})), "");
}

TEST(Range, HostileBounds) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min(), kMax = std::numeric_limits<int64_t>::max();
  const auto scalar = [](int64_t x) { return Tensor::scalar(x); };
  EXPECT_NE(failure({"Range"}, {scalar(kMin), scalar(kMax), scalar(1)}), "");
  EXPECT_EQ(run({"Range"}, {scalar(kMin), scalar(kMax), scalar(kMax)}).to_int64(), (Ints{kMin, -1, kMax - 1}));
  EXPECT_EQ(run({"Range"}, {scalar(kMax), scalar(0), scalar(kMin)}).to_int64(), (Ints{kMax}));
  EXPECT_NE(failure({"Range"}, {scalar(0), scalar(5), scalar(0)}), "");
  EXPECT_NE(failure({"Range"}, {floats({}, {0}), floats({}, {1e30}), floats({}, {1e-30})}), "");
  EXPECT_NE(failure({"Range"}, {floats({}, {0}), floats({}, {std::nan("")}), floats({}, {1})}), "");
  EXPECT_THAT(failure({"Range"}, {scalar(0), floats({}, {5}), scalar(1)}), ::testing::HasSubstr("input 1"));
}

}  // namespace
}  // namespace attune::testing
