#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

TEST(Logical, TruthTablesWithBroadcast) {
  const Tensor a = bools({2, 1}, {0, 1}), b = bools({2}, {0, 1});
  EXPECT_EQ(difference(run({"And"}, {a, b}), bools({2, 2}, {0, 0, 0, 1})), "");
  EXPECT_EQ(difference(run({"Or"}, {a, b}), bools({2, 2}, {0, 1, 1, 1})), "");
  EXPECT_EQ(difference(run({"Xor"}, {a, b}), bools({2, 2}, {0, 1, 1, 0})), "");
  EXPECT_EQ(difference(run({"Not"}, {b}), bools({2}, {1, 0})), "");
  EXPECT_THAT(failure({"Not"}, {ints({1})}), ::testing::HasSubstr("int64"));
}

TEST(Bitwise, AllWidths) {
  for (const DataType type : kIntegerTypes) {
    const Tensor a = make(type, {3}, {12, 5, 0}), b = make(type, {3}, {10, 3, 7});
    EXPECT_EQ(difference(run({"BitwiseAnd"}, {a, b}), make(type, {3}, {8, 1, 0})), "") << name(type);
    EXPECT_EQ(difference(run({"BitwiseOr"}, {a, b}), make(type, {3}, {14, 7, 7})), "") << name(type);
    EXPECT_EQ(difference(run({"BitwiseXor"}, {a, b}), make(type, {3}, {6, 6, 7})), "") << name(type);
    const Tensor twice = run({"BitwiseNot"}, {run({"BitwiseNot"}, {a})});
    EXPECT_EQ(difference(twice, a), "") << name(type);
  }
  EXPECT_EQ(
      difference(run({"BitwiseNot"}, {make(DataType::kInt8, {2}, {0, -128})}), make(DataType::kInt8, {2}, {-1, 127})),
      "");
}

TEST(BitShift, CountsOutsideTheWidthMoveAllBitsOut) {
  const Call left{"BitShift", {{"direction", std::string("LEFT")}}, 28},
      right{"BitShift", {{"direction", std::string("RIGHT")}}, 28};
  const auto i8 = [](const std::vector<double>& v) {
    return make(DataType::kInt8, {static_cast<int64_t>(v.size())}, v);
  };
  EXPECT_EQ(difference(run(left, {i8({1, 64, 1, 1}), i8({3, 1, 8, -1})}), i8({8, -128, 0, 0})), "");
  EXPECT_EQ(difference(run(right, {i8({-8, 8, -1, 100}), i8({1, 1, 9, -1})}), i8({-4, 4, -1, 0})), "");
  const auto u64 = [](const std::vector<double>& v) {
    return make(DataType::kUInt64, {static_cast<int64_t>(v.size())}, v);
  };
  EXPECT_EQ(difference(run(left, {u64({3, 1}), u64({40, 64})}), u64({3298534883328.0, 0})), "");
  EXPECT_THAT(failure({"BitShift", {{"direction", std::string("UP")}}}, {u64({1}), u64({1})}),
              ::testing::HasSubstr("LEFT or RIGHT"));
}

}  // namespace
}  // namespace attune::testing
