#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

Call scatter(const std::string& type, const std::string& reduction, int64_t axis = 0) {
  Attributes attributes = {{"reduction", reduction}};
  if (type != "ScatterND") attributes.insert({"axis", axis});
  return {type, attributes, 18};
}

TEST(Scatter, ReductionsOfEveryType) {
  struct Row {
    std::string reduction;
    std::vector<double> want;  // of data 5 5 5 5 with 3, 7, 2 written to 1, 1, -1
  };
  for (const DataType type : numeric_types()) {
    for (const Row& row : {Row{"none", {5, 7, 5, 2}}, Row{"add", {5, 15, 5, 7}}, Row{"mul", {5, 105, 5, 10}},
                           Row{"min", {5, 3, 5, 2}}, Row{"max", {5, 7, 5, 5}}}) {
      const Tensor data = make(type, {4}, {5, 5, 5, 5}), updates = make(type, {3}, {3, 7, 2});
      const Tensor want = make(type, {4}, row.want);
      EXPECT_EQ(difference(run(scatter("ScatterElements", row.reduction), {data, ints({1, 1, -1}), updates}), want), "")
          << name(type) << row.reduction;
      EXPECT_EQ(difference(run(scatter("ScatterND", row.reduction),
                               {data, make(DataType::kInt64, {3, 1}, {1, 1, -1}), updates}),
                           want),
                "")
          << name(type) << row.reduction;
    }
  }
}

TEST(Scatter, ElementsAlongEveryAxis) {
  for (const int64_t axis : {0, 1, -1}) {
    const auto a = static_cast<size_t>(axis < 0 ? axis + 2 : axis);
    const Tensor data = counting({3, 4});
    const Tensor indices = make(DataType::kInt64, {2, 2}, {0, 2, 1, -1}),
                 updates = floats({2, 2}, {100, 101, 102, 103});
    std::vector<double> want = data.to_double();
    for (int64_t i = 0; i < 2; ++i)
      for (int64_t j = 0; j < 2; ++j) {
        auto index = static_cast<int64_t>(at(indices, {i, j}));
        if (index < 0) index += data.dim(a);
        const int64_t row = a == 0 ? index : i, column = a == 1 ? index : j;
        want[static_cast<size_t>(row * 4 + column)] = at(updates, {i, j});
      }
    EXPECT_EQ(difference(run({"Scatter", {{"axis", axis}}, 9}, {data, indices, updates}), floats({3, 4}, want)), "")
        << axis;
  }
}

TEST(Scatter, NdSlicesKeepTheInputUnlessItMayGo) {
  const Tensor data = counting({3, 2});
  const Tensor updates = floats({1, 2}, {8, 9});
  const Tensor got = run({"ScatterND"}, {data, make(DataType::kInt64, {1, 1}, {1}), updates});
  EXPECT_EQ(difference(got, floats({3, 2}, {0, 1, 8, 9, 4, 5})), "");
  EXPECT_EQ(difference(data, counting({3, 2})), "");
  const Tensor words = run({"ScatterND"}, {Tensor::from_strings({2}, {"a", "b"}), make(DataType::kInt64, {1, 1}, {0}),
                                           Tensor::from_strings({1}, {"c"})});
  EXPECT_EQ(words.strings(), (std::vector<std::string>{"c", "b"}));
}

TEST(Scatter, Errors) {
  const Tensor data = counting({3, 2});
  EXPECT_THAT(failure({"ScatterND"}, {data, make(DataType::kInt64, {1, 1}, {3}), floats({1, 2}, {1, 2})}),
              ::testing::HasSubstr("index 3"));
  EXPECT_THAT(failure({"ScatterND"}, {data, make(DataType::kInt64, {1, 1}, {0}), floats({1, 3}, {1, 2, 3})}),
              ::testing::HasSubstr("input 2"));
  EXPECT_NE(failure({"ScatterND"}, {data, make(DataType::kInt64, {1, 3}, {0, 0, 0}), floats({1}, {1})}), "");
  EXPECT_THAT(failure({"ScatterElements"}, {ints({1}), ints({1}), ints({1})}), ::testing::HasSubstr("index 1"));
  EXPECT_NE(failure({"ScatterElements"}, {ints({1}), ints({0}), ints({1, 2})}), "");
  EXPECT_NE(
      failure(scatter("ScatterND", "average"), {data, make(DataType::kInt64, {1, 1}, {0}), floats({1, 2}, {1, 2})}),
      "");
}

}  // namespace
}  // namespace attune::testing
