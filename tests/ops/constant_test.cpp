#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

TEST(Constant, EveryAttribute) {
  const auto constant = [](std::string attribute, Attribute value) {
    return run({"Constant", {{std::move(attribute), std::move(value)}}}, {});
  };
  EXPECT_EQ(difference(constant("value", floats({2}, {1, 2})), floats({2}, {1, 2})), "");
  EXPECT_EQ(difference(constant("value_int", int64_t{7}), Tensor::scalar<int64_t>(7)), "");
  EXPECT_EQ(difference(constant("value_float", 0.5f), Tensor::scalar(0.5f)), "");
  EXPECT_EQ(difference(constant("value_ints", Ints{1, 2}), ints({1, 2})), "");
  EXPECT_EQ(difference(constant("value_floats", std::vector<float>{1, 2}), floats({2}, {1, 2})), "");
  EXPECT_EQ(constant("value_string", std::string("a")).strings(), (std::vector<std::string>{"a"}));
  EXPECT_EQ(constant("value_strings", std::vector<std::string>{"a", "b"}).shape(), (Shape{2}));
  EXPECT_NE(failure({"Constant"}, {}), "");
}

TEST(ConstantOfShape, FillsEveryWidth) {
  EXPECT_EQ(difference(run({"ConstantOfShape"}, {ints({2, 3})}), floats({2, 3}, std::vector<double>(6, 0))), "");
  EXPECT_EQ(run({"ConstantOfShape"}, {ints({})}).shape(), Shape());
  EXPECT_EQ(run({"ConstantOfShape"}, {ints({2, 0})}).count(), 0);
  for (const DataType type :
       {DataType::kInt8, DataType::kFloat16, DataType::kInt32, DataType::kDouble, DataType::kInt4, DataType::kUInt2}) {
    const Call call{"ConstantOfShape", {{"value", make(type, {1}, {3})}}};
    EXPECT_EQ(difference(run(call, {ints({5})}), make(type, {5}, {3, 3, 3, 3, 3})), "") << name(type);
  }
}

TEST(ConstantOfShape, HostileShapesAreErrors) {
  EXPECT_THAT(failure({"ConstantOfShape"}, {ints({-1})}), ::testing::HasSubstr("negative"));
  EXPECT_THAT(failure({"ConstantOfShape"}, {ints({int64_t{1} << 40, int64_t{1} << 40})}),
              ::testing::HasSubstr("too many"));
  EXPECT_THAT(failure({"ConstantOfShape"}, {ints(Ints(13, 1))}), ::testing::HasSubstr("at most 12"));
  EXPECT_THAT(failure({"ConstantOfShape"}, {floats({1}, {2})}), ::testing::HasSubstr("int32 or int64"));
}

TEST(ConstantOfShape, FillsEveryPackedWidth) {
  for (const DataType type : {DataType::kInt2, DataType::kUInt4, DataType::kFloat4E2M1, DataType::kFloat6E2M3})
    for (const int64_t count : {1, 4, 7})
      EXPECT_EQ(difference(run({"ConstantOfShape", {{"value", make(type, {1}, {1})}}}, {ints({count})}),
                           make(type, {count}, std::vector<double>(static_cast<size_t>(count), 1))),
                "")
          << name(type) << ' ' << count;
}

}  // namespace
}  // namespace attune::testing
