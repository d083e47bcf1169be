// The best columns of a product, against those of the stored product.
#include "ops/support/top_columns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <random>

#include "ops/support/row_math.h"

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

// What the stored product gives: of each row the best columns by value, then by number.
struct Expected {
  std::vector<float> values;
  std::vector<int64_t> columns;
};
Expected best_of(const std::vector<float>& row, int64_t count) {
  std::vector<int64_t> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return row[static_cast<size_t>(a)] > row[static_cast<size_t>(b)]; });
  Expected e;
  for (int64_t i = 0; i < count; ++i) {
    e.columns.push_back(order[static_cast<size_t>(i)]);
    e.values.push_back(row[static_cast<size_t>(e.columns.back())]);
  }
  return e;
}

struct Form {
  int64_t rows, count;
  bool biased, excludes, logarithms;
};

void expect_best_columns(const PanelWeights& w, const Form& form, float spread) {
  const std::vector<float> bias = random_numbers(kColumns, 2);
  const std::vector<int64_t> excluded{-4, 0, 17, 1023, 1024, 2999, 3004, 3005, 90000};
  std::vector<float> x = random_numbers(form.rows * kInner, static_cast<unsigned>(form.rows));
  for (float& v : x) v *= spread;
  const std::vector<float> offsets = random_numbers(form.rows, 7);
  std::vector<float> y(static_cast<size_t>(form.rows * kColumns));
  w.multiply(x.data(), kInner, form.rows, y.data(), kColumns, {.bias = form.biased ? bias.data() : nullptr});

  std::vector<float> values(static_cast<size_t>(form.rows * form.count));
  std::vector<int64_t> columns(values.size(), -1);
  TopColumns top;
  top.count = form.count;
  if (form.excludes) top.excluded = excluded;
  if (form.logarithms) top.offsets = offsets.data();
  top.values = values.data();
  top.columns = columns.data();
  StretchedWeights(w).top_columns(x.data(), form.rows, form.biased ? bias.data() : nullptr, top, nullptr);

  for (int64_t r = 0; r < form.rows; ++r) {
    std::vector<float> row(y.begin() + r * kColumns, y.begin() + (r + 1) * kColumns);
    if (form.logarithms) {
      log_softmax_row(row.data(), row.data(), kColumns);
      for (float& v : row) v += offsets[static_cast<size_t>(r)];
    }
    if (form.excludes)
      for (const int64_t c : excluded)
        if (c >= 0 && c < kColumns) row[static_cast<size_t>(c)] = -std::numeric_limits<float>::infinity();
    const Expected e = best_of(row, form.count);
    const auto from = static_cast<std::ptrdiff_t>(r * form.count), to = from + static_cast<std::ptrdiff_t>(form.count);
    EXPECT_EQ(std::vector<int64_t>(columns.begin() + from, columns.begin() + to), e.columns) << "row " << r;
    EXPECT_EQ(std::vector<float>(values.begin() + from, values.begin() + to), e.values) << "row " << r;
  }
}

class TopColumnsOf : public testing::TestWithParam<PanelWeights::Storage> {};

TEST_P(TopColumnsOf, AreThoseOfTheStoredProduct) {
  const auto w = weights(GetParam());
  for (const int64_t rows : {1, 3, 8, 13})
    for (const int64_t count : {1, 9})
      for (const bool biased : {false, true})
        for (const bool excludes : {false, true})
          for (const bool logarithms : {false, true})
            expect_best_columns(*w, {rows, count, biased, excludes, logarithms}, 1);
}

// Results so close to one another that many become the same logarithm: then the first columns of these count.
TEST_P(TopColumnsOf, AreThoseOfLogarithmsThatAreEqual) {
  const auto w = weights(GetParam());
  for (const int64_t rows : {1, 8})
    for (const float spread : {1e-6F, 1e-7F, 1e-8F, 0.0F})
      expect_best_columns(*w, {rows, 9, false, rows > 1, true}, spread);
}

INSTANTIATE_TEST_SUITE_P(Storages, TopColumnsOf,
                         testing::Values(PanelWeights::Storage::kFloat32, PanelWeights::Storage::kFloat16,
                                         PanelWeights::Storage::kInt8));

TEST(TopColumns, AreTheFirstOfEqualOnesAndNeverNan) {
  const std::vector<float> ones(static_cast<size_t>(kColumns), 1.0F);
  const PanelWeights w = PanelWeights::pack(Tensor::from<float>({1, kColumns}, std::span<const float>(ones)), false);
  const float x[] = {2, -1, std::numeric_limits<float>::quiet_NaN()};
  std::vector<float> values(6);
  std::vector<int64_t> columns(6);
  const std::vector<int64_t> excluded{0, 2};
  TopColumns top{2, excluded, nullptr, values.data(), columns.data()};
  StretchedWeights(w).top_columns(x, 3, nullptr, top, nullptr);
  EXPECT_THAT(columns, testing::ElementsAre(1, 3, 1, 3, 0, 0));
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  EXPECT_THAT(values, testing::ElementsAre(2, 2, -1, -1, kNone, kNone));
}

TEST(LogSumRow, IsTheLogarithmOfTheSum) {
  for (const int64_t n : {1, 7, 1024, 1025, 70000}) {
    std::vector<float> x = random_numbers(n, 5);
    x[0] = 30;
    double sum = 0;
    for (const float v : x) sum += std::exp(static_cast<double>(v) - 30);
    const LogSum got = log_sum_row(x.data(), n);
    EXPECT_EQ(got.shift, 30.0F);
    EXPECT_NEAR(got.log, std::log(sum), 1e-6) << n;
  }
  std::vector<float> x(2000, -std::numeric_limits<float>::infinity());
  EXPECT_FALSE(std::isfinite(log_sum_row(x.data(), 2000).shift));
  x[3] = 1.5F;  // a stretch of -inf adds nothing
  EXPECT_EQ(log_sum_row(x.data(), 2000).shift, 1.5F);
  EXPECT_EQ(log_sum_row(x.data(), 2000).log, 0.0F);
  x[1500] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(log_sum_row(x.data(), 2000).shift));
}

}  // namespace
}  // namespace attune
