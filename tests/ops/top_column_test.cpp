// The best column of a product, against that of the stored product.
#include "ops/support/top_column.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>

namespace attune {
namespace {

constexpr int64_t kInner = 40, kColumns = 3005;  // three stretches, the last panel not full

std::vector<float> random_numbers(int64_t n, unsigned seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(static_cast<size_t>(n));
  for (float& x : out) x = normal(rng);
  return out;
}

std::shared_ptr<const PanelWeights> weights(PanelWeights::Storage storage) {
  const auto keep = [](PanelWeights w) { return std::make_shared<const PanelWeights>(std::move(w)); };
  const std::vector<float> values = random_numbers(kInner * kColumns, 1);
  const Tensor t = Tensor::from<float>({kInner, kColumns}, std::span<const float>(values));
  if (storage == PanelWeights::Storage::kFloat32) return keep(PanelWeights::pack(t, false));
  if (storage == PanelWeights::Storage::kFloat16) {
    Tensor half = Tensor::allocate(DataType::kFloat16, t.shape());
    for (size_t i = 0; i < values.size(); ++i) half.mutable_data<Float16>()[i] = Float16(values[i]);
    return keep(PanelWeights::pack(half, false));
  }
  Tensor bytes = Tensor::allocate(DataType::kInt8, t.shape());
  for (size_t i = 0; i < values.size(); ++i)
    bytes.mutable_data<int8_t>()[i] = static_cast<int8_t>(std::lround(values[i] * 25));
  std::vector<float> scales = random_numbers(kColumns, 4);
  for (float& s : scales) s = 0.03F + 0.01F * std::abs(s);
  const Tensor scale = Tensor::from<float>({1, kColumns}, std::span<const float>(scales));
  return keep(PanelWeights::pack_quantized(bytes, false, scale, 0, true));
}

class TopColumn : public testing::TestWithParam<PanelWeights::Storage> {};

TEST_P(TopColumn, IsThatOfTheStoredProduct) {
  const auto whole = weights(GetParam());
  const StretchedWeights stretched(whole);
  const std::vector<float> bias = random_numbers(kColumns, 2);
  for (const int64_t rows : {1, 3, 8, 13})
    for (const bool biased : {false, true}) {
      const std::vector<float> x = random_numbers(rows * kInner, static_cast<unsigned>(rows));
      std::vector<float> y(static_cast<size_t>(rows * kColumns));
      whole->multiply(x.data(), kInner, rows, y.data(), kColumns, {.bias = biased ? bias.data() : nullptr});
      // What wins is excluded next, again and again.
      std::vector<int64_t> excluded{-4, 3005, 90000};
      for (int round = 0; round < 6; ++round) {
        std::vector<int64_t> columns(static_cast<size_t>(rows), -1);
        stretched.top_column(x.data(), rows, biased ? bias.data() : nullptr, excluded, columns.data(), nullptr);
        for (int64_t r = 0; r < rows; ++r) {
          float* row = y.data() + r * kColumns;
          for (const int64_t c : excluded)
            if (c >= 0 && c < kColumns) row[c] = -std::numeric_limits<float>::infinity();
          ASSERT_EQ(columns[static_cast<size_t>(r)], std::max_element(row, row + kColumns) - row) << r << " " << round;
        }
        excluded.insert(excluded.end(), columns.begin(), columns.end());
        std::sort(excluded.begin(), excluded.end());
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Storages, TopColumn,
                         testing::Values(PanelWeights::Storage::kFloat32, PanelWeights::Storage::kFloat16,
                                         PanelWeights::Storage::kInt8));

TEST(TopColumnOfEqual, IsTheFirst) {
  const std::vector<float> ones(static_cast<size_t>(kColumns), 1.0F);
  const StretchedWeights w(std::make_shared<const PanelWeights>(
      PanelWeights::pack(Tensor::from<float>({1, kColumns}, std::span<const float>(ones)), false)));
  const float x[] = {2, -1, std::numeric_limits<float>::quiet_NaN()};
  std::vector<int64_t> columns(3);
  w.top_column(x, 3, nullptr, {}, columns.data(), nullptr);
  EXPECT_THAT(columns, testing::ElementsAre(0, 0, 0));
  const std::vector<int64_t> excluded{0, 1, 2};
  w.top_column(x, 2, nullptr, excluded, columns.data(), nullptr);
  EXPECT_THAT(columns, testing::ElementsAre(3, 3, 0));
}

}  // namespace
}  // namespace attune
