#include <gtest/gtest.h>

#include "tests/ops/node_runner.h"

namespace attune::testing {
namespace {

// Borders worked out by hand from the definition, 32 buckets, max_distance 128, bidirectional: 16 for each sign, 8
// exact, then 8 + floor(8 ln(d / 8) / ln 16).
TEST(RelativePositionBias, BucketsOfT5) {
  Tensor table = Tensor::allocate(DataType::kFloat, {32, 2});
  for (int64_t i = 0; i < 64; ++i) table.mutable_data<float>()[i] = static_cast<float>(i / 2 * 10 + i % 2);
  const auto lengths = [](int64_t n) { return Tensor::from<int64_t>({1}, {n}); };
  const auto y = run_node({.type = "RelativePositionBias",
                           .domain = "ai.attune",
                           .attributes = {{"max_distance", int64_t{128}}, {"bidirectional", int64_t{1}}},
                           .opset = 1},
                          {table, lengths(1), lengths(200)});
  ASSERT_EQ(y[0].tensor().shape(), (Shape{1, 2, 1, 200}));
  const auto v = y[0].tensor().to_double();
  // Keys after the query: buckets 16 and up.
  const std::pair<size_t, int> keys[] = {{0, 0},   {1, 17},  {7, 23},  {8, 24},  {11, 24},  {12, 25},
                                         {16, 26}, {22, 26}, {23, 27}, {31, 27}, {32, 28},  {45, 28},
                                         {46, 29}, {64, 30}, {90, 30}, {91, 31}, {128, 31}, {199, 31}};
  for (const auto& [key, bucket] : keys) {
    EXPECT_EQ(v[key], bucket * 10) << "key " << key;
    EXPECT_EQ(v[200 + key], bucket * 10 + 1) << "key " << key;
  }
}

// Past keys only: 16 exact of 32; the query's position is offset + its index.
TEST(RelativePositionBias, DecoderStepWithOffset) {
  Tensor table = Tensor::allocate(DataType::kFloat, {32, 1});
  for (int64_t i = 0; i < 32; ++i) table.mutable_data<float>()[i] = static_cast<float>(i);
  const auto number = [](int64_t n) { return Tensor::scalar<int64_t>(n); };
  const auto y = run_node({.type = "RelativePositionBias",
                           .domain = "ai.attune",
                           .attributes = {{"max_distance", int64_t{128}}, {"bidirectional", int64_t{0}}},
                           .opset = 1},
                          {table, number(2), number(42), number(40)});
  const auto v = y[0].tensor().to_double();
  const auto bucket = [](int64_t distance) {
    if (distance < 0) return 0.0;
    if (distance < 16) return static_cast<double>(distance);
    return static_cast<double>(std::min<int64_t>(
        31, 16 + static_cast<int64_t>(16 * std::log(static_cast<double>(distance) / 16) / std::log(8.0))));
  };
  for (int64_t q = 0; q < 2; ++q)
    for (int64_t k = 0; k < 42; ++k) EXPECT_EQ(v[static_cast<size_t>(q * 42 + k)], bucket(40 + q - k)) << q << ' ' << k;
}

}  // namespace
}  // namespace attune::testing
