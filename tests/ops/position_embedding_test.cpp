#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/error.h"
#include "tests/ops/node_runner.h"

namespace attune::testing {
namespace {

NodeUnderTest node(float scale, int64_t offset) {
  return {.type = "PositionEmbedding",
          .domain = "ai.attune",
          .attributes = {{"scale", scale}, {"offset", offset}},
          .opset = 1};
}

float at(const Tensor& t, int64_t row, int64_t column) { return t.data<float>()[row * t.dim(t.rank() - 1) + column]; }

// y[b][t] = scale x[b][t] + table[offset + start + t], of widths around those of vectors.
TEST(PositionEmbedding, AddsRowsInOrder) {
  for (const int64_t width : {1, 3, 8, 37}) {
    const Tensor x = random_tensor({2, 5, width}, 1), table = random_tensor({12, width}, 2);
    const auto y = run_node(node(1.5F, 2), {x, table, Tensor::from<int64_t>({1}, {4})})[0].tensor();
    ASSERT_EQ(y.shape(), x.shape());
    for (int64_t row = 0; row < 10; ++row)
      for (int64_t c = 0; c < width; ++c)
        EXPECT_FLOAT_EQ(at(y, row, c), 1.5F * at(x, row, c) + at(table, 6 + row % 5, c)) << row << ' ' << c;
  }
}

// The row of padding is `offset`; tokens count on over it, and over columns before the states.
TEST(PositionEmbedding, CountsTokens) {
  const Tensor x = random_tensor({2, 3, 4}, 1), table = random_tensor({9, 4}, 2);
  const Tensor tokens = Tensor::from<int64_t>({2, 5}, {1, 1, 0, 1, 1, 0, 1, 1, 1, 0});
  const auto y = run_node(node(1, 1), {x, table, Tensor::scalar<int64_t>(2), tokens})[0].tensor();
  const int64_t rows[] = {1, 6, 7, 5, 6, 1};
  for (int64_t row = 0; row < 6; ++row)
    for (int64_t c = 0; c < 4; ++c) EXPECT_FLOAT_EQ(at(y, row, c), at(x, row, c) + at(table, rows[row], c)) << row;
}

TEST(PositionEmbedding, HalvesAreRoundedOnce) {
  const auto half = [](std::vector<float> values) {
    Tensor t = Tensor::allocate(DataType::kFloat16, {1, static_cast<int64_t>(values.size())});
    for (size_t i = 0; i < values.size(); ++i) t.mutable_data<Float16>()[i] = Float16(values[i]);
    return t;
  };
  // 3 * 683 = 2049, which rounds to 2048 when it stands alone; 2049 + 1 doesn't round.
  const auto y = run_node(node(3, 0), {half({683, 1}), half({1, 2})})[0].tensor();
  EXPECT_EQ(y.to_double(), (std::vector<double>{2050, 5}));
}

TEST(PositionEmbedding, NoStates) {
  const auto y = run_node(node(1, 0), {random_tensor({2, 0, 4}, 1), random_tensor({3, 4}, 2)})[0].tensor();
  EXPECT_EQ(y.shape(), (Shape{2, 0, 4}));
}

TEST(PositionEmbedding, RefusesWhatDoesNotFit) {
  const Tensor x = random_tensor({2, 3, 4}, 1), table = random_tensor({5, 4}, 2);
  const auto message = [](auto&& f) -> std::string {
    try {
      f();
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_THAT(message([&] {
                run_node(node(1, 3), {x, table});
              }),
              ::testing::HasSubstr("a sequence of 3 positions: the table of positions is for 2 at most (row 5 of 5)"));
  EXPECT_THAT(message([&] {
                run_node(node(1, 0), {x, random_tensor({5, 3}, 2)});
              }),
              ::testing::HasSubstr("input 1: expected (rows, 4)"));
  EXPECT_THAT(message([&] {
                run_node(node(1, 0), {x, table, Tensor(), Tensor::from<int64_t>({2, 2}, {1, 1, 1, 1})});
              }),
              ::testing::HasSubstr("input 3: expected (2, at least 3)"));
  EXPECT_THAT(message([&] {
                run_node(node(1, 0), {random_tensor({4}, 1), table});
              }),
              ::testing::HasSubstr("input 0: expected rank 2 or more"));
}

}  // namespace
}  // namespace attune::testing
