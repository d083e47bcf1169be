// Products of integer weights with rows rounded to integers, against scalar code that does the same.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "ops/support/panel_block.h"
#include "ops/support/panel_weights.h"

namespace attune {
namespace {

size_t sz(int64_t n) { return static_cast<size_t>(n); }

struct Case {
  int64_t inner, columns, group;  // group 0: one scale a column
  bool int4;
};

// Weights of all values that their type has, and scales.
struct Weights {
  explicit Weights(const Case& c, std::mt19937& rng) : c(c), groups(c.group ? (c.inner + c.group - 1) / c.group : 1) {
    for (int64_t i = 0; i < c.inner * c.columns; ++i)
      values.push_back(c.int4 ? static_cast<int>(rng() % 16) - 8 : static_cast<int>(rng() % 256) - 128);
    for (int64_t i = 0; i < groups * c.columns; ++i) scales.push_back(0.01F * static_cast<float>(1 + rng() % 9));
  }

  PanelWeights pack() const {
    Tensor w = Tensor::allocate(c.int4 ? DataType::kInt4 : DataType::kInt8, {c.inner, c.columns});
    auto* bytes = reinterpret_cast<uint8_t*>(w.mutable_raw());
    for (size_t i = 0; i < values.size(); ++i) {
      const auto byte = static_cast<uint8_t>(values[i]);
      if (!c.int4) {
        bytes[i] = byte;
      } else {
        bytes[i / 2] = static_cast<uint8_t>(i % 2 == 0 ? byte & 15 : bytes[i / 2] | (byte << 4));
      }
    }
    return PanelWeights::pack_quantized(w, false, Tensor::from<float>({groups, c.columns}, scales), c.group, true);
  }

  Case c;
  int64_t groups;
  std::vector<int> values;
  std::vector<float> scales;
};

// Sum over blocks of x's scale times the sum of rounded x times weights, times the weights' scale.
double expected(const Weights& w, const float* x, int64_t block, int64_t n) {
  double sum = 0;
  for (int64_t begin = 0; begin < w.c.inner; begin += block) {
    const int64_t end = std::min(w.c.inner, begin + block);
    float most = 0;
    for (int64_t k = begin; k < end; ++k) most = std::max(most, std::abs(x[k]));
    const float factor = most > 0 ? 127.0F / most : 0.0F;
    int64_t dot = 0;
    for (int64_t k = begin; k < end; ++k)
      dot += static_cast<int64_t>(std::nearbyint(x[k] * factor)) * w.values[sz(k * w.c.columns + n)];
    const int64_t g = w.c.group ? begin / w.c.group : 0;
    sum += static_cast<double>(dot) * static_cast<double>(most / 127.0F) *
           static_cast<double>(w.scales[sz(g * w.c.columns + n)]);
  }
  return sum;
}

std::vector<float> random_floats(int64_t n, std::mt19937& rng) {
  std::normal_distribution<float> normal;
  std::vector<float> v(sz(n));
  for (float& x : v) x = normal(rng);
  return v;
}

class Int8Product : public testing::TestWithParam<std::tuple<Case, int>> {};

TEST_P(Int8Product, EqualsTheScalarDefinition) {
  const auto [c, rows] = GetParam();
  std::mt19937 rng(static_cast<unsigned>(c.inner * 100 + c.columns + rows));
  const Weights weights(c, rng);
  const PanelWeights p = weights.pack();
  auto x = random_floats(rows * c.inner, rng);
  x[0] = 50;  // an outlier
  const auto bias = random_floats(c.columns, rng);
  std::vector<float> y(sz(rows * c.columns));
  const Epilogue epilogue{bias.data(), Activation::kRelu, nullptr, 0};
  const auto check = [&](const char* what) {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t n = 0; n < c.columns; ++n) {
        const double e = std::max(0.0, expected(weights, &x[sz(r * c.inner)], p.activation_block(), n) + bias[sz(n)]);
        ASSERT_NEAR(y[sz(r * c.columns + n)], e, 1e-5 * (1 + std::abs(e)))
            << what << ": K " << c.inner << " N " << c.columns << " group " << c.group << " row " << r << " column "
            << n;
      }
  };
  p.multiply(x.data(), c.inner, rows, y.data(), c.columns, epilogue);
  check("multiply");

  // The instructions for processors without VNNI.
  const int64_t blocks = (c.inner + p.activation_block() - 1) / p.activation_block();
  std::vector<std::byte> values(sz(rows * p.padded_inner()));
  std::vector<float> scales(sz(rows * blocks));
  std::vector<int32_t> starts(sz(rows * blocks));
  std::fill(y.begin(), y.end(), 0.0F);
  const PanelBlock block{
      &p,        x.data(),   c.inner, y.data(),   c.columns,
      &epilogue, int64_t{0}, nullptr, int64_t{0}, {values.data(), scales.data(), starts.data(), blocks}};
  quantize_rows(block, 0, rows);
  multiply_int8(block, rows, 0, p.panels(), false);
  check("without VNNI");
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, Int8Product,
    testing::Combine(testing::Values(Case{1, 1, 0, false}, Case{7, 17, 0, false}, Case{129, 40, 0, false},
                                     Case{512, 64, 0, false}, Case{2048, 33, 0, false}, Case{96, 16, 32, false},
                                     Case{100, 48, 30, false}, Case{1, 1, 0, true}, Case{9, 17, 0, true},
                                     Case{300, 40, 0, true}, Case{256, 64, 32, true}, Case{200, 33, 64, true},
                                     Case{512, 16, 128, true}, Case{50, 20, 12, true}),
                     testing::Values(1, 2, 3, 5, 8, 9, 21)));

// Two products whose intermediate result is rounded while it is computed give the bits of two calls.
struct TwiceCase {
  int64_t rows, inner, hidden, columns, group1, group2;
  bool int4;
  bool wide;  // the second one's weights in 16 bits
};

class MultiplyTwice : public testing::TestWithParam<TwiceCase> {};

TEST_P(MultiplyTwice, GivesTheBitsOfTwoProducts) {
  const TwiceCase c = GetParam();
  std::mt19937 rng(static_cast<unsigned>(c.rows * 31 + c.hidden));
  const PanelWeights first = Weights({c.inner, c.hidden, c.group1, c.int4}, rng).pack();
  PanelWeights second;
  if (c.wide) {
    Tensor w = Tensor::allocate(DataType::kFloat16, {c.hidden, c.columns});
    const auto values = random_floats(w.count(), rng);
    std::transform(values.begin(), values.end(), w.mutable_data<Float16>(), [](float v) { return Float16(v); });
    second = PanelWeights::pack_int16(w, false);
  } else {
    second = Weights({c.hidden, c.columns, c.group2, c.int4}, rng).pack();
  }
  const auto x = random_floats(c.rows * c.inner, rng), b1 = random_floats(c.hidden, rng),
             b2 = random_floats(c.columns, rng), residual = random_floats(c.rows * c.columns, rng);
  for (const Activation a : {Activation::kRelu, Activation::kGelu, Activation::kNone}) {
    const Epilogue hidden{b1.data(), a}, last{b2.data(), Activation::kNone, residual.data(), c.columns};
    std::vector<float> between(sz(c.rows * c.hidden)), apart(residual.size()), y(residual.size());
    first.multiply(x.data(), c.inner, c.rows, between.data(), c.hidden, hidden);
    second.multiply(between.data(), c.hidden, c.rows, apart.data(), c.columns, last);
    PanelWeights::multiply_twice(first, hidden, second, x.data(), c.rows, y.data(), last, nullptr);
    EXPECT_EQ(y, apart);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, MultiplyTwice,
    testing::Values(TwiceCase{1, 64, 256, 64, 0, 0, false, false}, TwiceCase{64, 64, 256, 64, 0, 0, false, false},
                    TwiceCase{101, 96, 300, 40, 0, 0, false, false}, TwiceCase{300, 512, 2048, 32, 0, 0, false, false},
                    TwiceCase{77, 128, 100, 16, 0, 0, false, false},  // blocks aren't whole panels
                    TwiceCase{70, 128, 192, 48, 32, 64, true, false}, TwiceCase{70, 128, 200, 48, 32, 25, true, false},
                    TwiceCase{65, 64, 384, 33, 0, 0, false, true}));

// Rounded to 16 bits: weights by columns, x by blocks of 128.
class Int16Product : public testing::TestWithParam<std::tuple<std::pair<int64_t, int64_t>, int64_t>> {};

struct BlockSize {
  double most = 0, norm = 0;
};

// Of values (begin), (begin + stride) ... of a block from `begin` on.
BlockSize block_size(const std::vector<float>& v, int64_t begin, int64_t count, int64_t stride) {
  BlockSize s;
  double squares = 0;
  for (int64_t k = 0; k < count; ++k) {
    const double x = v[sz(begin + k * stride)];
    s.most = std::max(s.most, std::abs(x));
    squares += x * x;
  }
  s.norm = std::sqrt(squares);
  return s;
}

// x in whole numbers, so that sums of squares are exact in any order; w (inner, columns).
double expected16(const std::vector<float>& x, int64_t row, const std::vector<float>& w, int64_t inner, int64_t columns,
                  int64_t n) {
  double w_scale = std::ldexp(1, -126);
  for (int64_t begin = 0; begin < inner; begin += 128) {
    const BlockSize s = block_size(w, begin * columns + n, std::min<int64_t>(128, inner - begin), columns);
    while (s.most > 32767 * w_scale || s.norm > 46330 * w_scale) w_scale *= 2;
  }
  double sum = 0;
  for (int64_t begin = 0; begin < inner; begin += 128) {
    const int64_t end = std::min(inner, begin + 128);
    const BlockSize s = block_size(x, row * inner + begin, end - begin, 1);
    if (s.most == 0) continue;
    const float factor = std::min(32767.0F / static_cast<float>(s.most), 46330.0F / static_cast<float>(s.norm));
    int64_t dot = 0;
    for (int64_t k = begin; k < end; ++k)
      dot += static_cast<int64_t>(std::nearbyint(x[sz(row * inner + k)] * factor)) *
             static_cast<int64_t>(std::nearbyint(w[sz(k * columns + n)] / w_scale));
    EXPECT_LT(std::abs(dot), int64_t{1} << 31);
    sum += static_cast<double>(dot) / static_cast<double>(factor) * w_scale;
  }
  return sum;
}

Tensor halves(const std::vector<float>& values, int64_t inner, int64_t columns, bool transposed) {
  Tensor w = Tensor::allocate(DataType::kFloat16, transposed ? Shape{columns, inner} : Shape{inner, columns});
  for (int64_t k = 0; k < inner; ++k)
    for (int64_t n = 0; n < columns; ++n)
      w.mutable_data<Float16>()[transposed ? n * inner + k : k * columns + n] = Float16(values[sz(k * columns + n)]);
  return w;
}

std::vector<float> random_halves(int64_t n, std::mt19937& rng) {
  std::vector<float> values = random_floats(n, rng);
  for (float& v : values) v = static_cast<float>(Float16(v));
  return values;
}

// With the instructions for processors without VNNI.
void multiply_plainly(const PanelWeights& p, const std::vector<float>& x, int64_t rows, std::vector<float>& y,
                      const Epilogue& epilogue) {
  const int64_t blocks = (p.inner() + p.activation_block() - 1) / p.activation_block();
  std::vector<std::byte> rounded(sz(rows * p.padded_inner() * 2));
  std::vector<float> scales(sz(rows * blocks));
  std::vector<int32_t> starts(sz(rows * blocks));
  const PanelBlock block{
      &p,        x.data(),   p.inner(), y.data(),   p.columns(),
      &epilogue, int64_t{0}, nullptr,   int64_t{0}, {rounded.data(), scales.data(), starts.data(), blocks}};
  quantize_rows(block, 0, rows);
  multiply_int8(block, rows, 0, p.panels(), false);
}

TEST_P(Int16Product, EqualsTheScalarDefinition) {
  const auto [size, rows] = GetParam();
  const auto [inner, columns] = size;
  std::mt19937 rng(static_cast<unsigned>(inner * 100 + columns + rows));
  for (const bool transposed : {false, true}) {
    const auto values = random_halves(inner * columns, rng);
    std::vector<float> x(sz(rows * inner));
    for (float& v : x) v = static_cast<float>(static_cast<int>(rng() % 81) - 40);
    x[0] = 500;
    const auto bias = random_floats(columns, rng);
    const PanelWeights p = PanelWeights::pack_int16(halves(values, inner, columns, transposed), transposed);
    const Epilogue epilogue{bias.data(), Activation::kRelu, nullptr, 0};
    std::vector<float> y(sz(rows * columns));
    const auto check = [&](const char* what) {
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t n = 0; n < columns; ++n) {
          const double e = std::max(0.0, expected16(x, r, values, inner, columns, n) + bias[sz(n)]);
          ASSERT_NEAR(y[sz(r * columns + n)], e, 1e-5 * (20 + std::abs(e)))
              << what << ": K " << inner << " N " << columns << " row " << r << " column " << n;
        }
    };
    p.multiply(x.data(), inner, rows, y.data(), columns, epilogue);
    check("multiply");
    std::fill(y.begin(), y.end(), 0.0F);
    multiply_plainly(p, x, rows, y, epilogue);
    check("without VNNI");
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, Int16Product,
    testing::Combine(testing::Values(std::pair<int64_t, int64_t>{1, 1}, std::pair<int64_t, int64_t>{7, 17},
                                     std::pair<int64_t, int64_t>{129, 40}, std::pair<int64_t, int64_t>{512, 64},
                                     std::pair<int64_t, int64_t>{300, 33}),
                     testing::Values(1, 2, 5, 12, 70)));

// The products of 128 values fit in the sums also where both operands point in the same direction, whatever their size.
TEST(Int16Product, ExtremesDoNotOverflow) {
  constexpr int64_t kInner = 256;
  std::mt19937 rng(1);
  for (const double size : {1.0, 0.73, 1e-20, 1e-4, 3e4, 1e30})
    for (const bool constant : {true, false}) {
      std::vector<float> w = random_floats(kInner, rng), x(kInner), y(1);
      if (constant) w.assign(kInner, 1.7F);
      const Tensor stored = halves(w, kInner, 1, false);
      double wanted = 0;
      for (size_t k = 0; k < x.size(); ++k) {
        const auto weight = static_cast<double>(static_cast<float>(stored.data<Float16>()[k]));
        x[k] = static_cast<float>(-weight * size);
        wanted += weight * static_cast<double>(x[k]);
      }
      const PanelWeights p = PanelWeights::pack_int16(stored, false);
      p.multiply(x.data(), kInner, 1, y.data(), 1);
      EXPECT_NEAR(y[0] / wanted, 1, 2e-4) << size;
      multiply_plainly(p, x, 1, y, {});
      EXPECT_NEAR(y[0] / wanted, 1, 2e-4) << size << " without VNNI";
    }
}

// Rounding costs as much as float16 weights themselves.
TEST(Int16Product, IsAsExactAsItsWeights) {
  constexpr int64_t kInner = 1024, kColumns = 64, kRows = 16;
  std::mt19937 rng(2);
  const auto w = random_floats(kInner * kColumns, rng), x = random_floats(kRows * kInner, rng);
  const Tensor stored = halves(w, kInner, kColumns, false);
  std::vector<float> y(kRows * kColumns);
  PanelWeights::pack_int16(stored, false).multiply(x.data(), kInner, kRows, y.data(), kColumns);
  double rounding = 0, storing = 0;
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t n = 0; n < kColumns; ++n) {
      double exact = 0, narrow = 0;
      for (int64_t k = 0; k < kInner; ++k) {
        const auto v = static_cast<double>(x[sz(r * kInner + k)]);
        exact += v * static_cast<double>(w[sz(k * kColumns + n)]);
        narrow += v * static_cast<double>(static_cast<float>(stored.data<Float16>()[k * kColumns + n]));
      }
      storing += (narrow - exact) * (narrow - exact);
      rounding += (y[sz(r * kColumns + n)] - narrow) * (y[sz(r * kColumns + n)] - narrow);
    }
  EXPECT_LT(std::sqrt(rounding), std::sqrt(storing));
}

TEST(Int16Product, WhatIsNotFiniteStaysVisible) {
  Tensor w = Tensor::allocate(DataType::kFloat16, {40, 16});
  std::fill_n(w.mutable_data<Float16>(), w.count(), Float16(1.0F));
  std::vector<float> x(40, 1.0F), y(16);
  x[30] = std::numeric_limits<float>::infinity();
  PanelWeights::pack_int16(w, false).multiply(x.data(), 40, 1, y.data(), 16);
  for (const float v : y) EXPECT_FALSE(std::isfinite(v));
  x[30] = 1;
  w.mutable_data<Float16>()[3] = Float16(std::numeric_limits<float>::quiet_NaN());
  PanelWeights::pack_int16(w, false).multiply(x.data(), 40, 1, y.data(), 16);
  for (size_t n = 0; n < 16; ++n) EXPECT_EQ(std::isfinite(y[n]), n != 3) << n;
}

TEST(Int8Product, ExtremesDoNotSaturate) {
  std::mt19937 rng(1);
  for (const int extreme : {-128, 127}) {
    Weights w({512, 32, 0, false}, rng);
    std::fill(w.values.begin(), w.values.end(), extreme);
    std::vector<float> y(32);
    for (const float sign : {-1.0F, 1.0F}) {
      const std::vector<float> x(512, sign);
      w.pack().multiply(x.data(), 512, 1, y.data(), 32);
      for (int64_t n = 0; n < 32; ++n) {
        const double e = 512.0 * static_cast<double>(sign) * extreme * static_cast<double>(w.scales[sz(n)]);
        ASSERT_NEAR(y[sz(n)], e, 1e-5 * std::abs(e));
      }
    }
  }
}

TEST(Int8Product, WhatIsNotFiniteStaysVisible) {
  std::mt19937 rng(2);
  const Weights w({160, 16, 0, false}, rng);
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> x(160, 1.0F), y(16);
    x[150] = bad;
    w.pack().multiply(x.data(), 160, 1, y.data(), 16);
    for (const float v : y) EXPECT_FALSE(std::isfinite(v));
  }
}

TEST(Int8Product, WhatIsTooSmallToInvertIsZero) {
  std::mt19937 rng(2);
  const Weights w({160, 16, 0, false}, rng);
  std::vector<float> x(160, 0.0F), y(16, 1.0F);
  x[3] = 1e-38F;
  w.pack().multiply(x.data(), 160, 1, y.data(), 16);
  for (const float v : y) EXPECT_EQ(v, 0.0F);
}

// Rows don't influence each other: a sentence gives the same alone and in a batch.
TEST(Int8Product, RowsAreIndependent) {
  std::mt19937 rng(3);
  const Weights w({512, 100, 64, true}, rng);
  const PanelWeights p = w.pack();
  const auto x = random_floats(20 * 512, rng);
  std::vector<float> all(20 * 100), one(100);
  p.multiply(x.data(), 512, 20, all.data(), 100);
  for (size_t r = 0; r < 20; ++r) {
    p.multiply(&x[r * 512], 512, 1, one.data(), 100);
    for (size_t n = 0; n < 100; ++n) ASSERT_FLOAT_EQ(one[n], all[r * 100 + n]) << r;
  }
}

// Many rows are cut into blocks.
TEST(Int8Product, ManyRowsAreEachAsAlone) {
  std::mt19937 rng(4);
  for (const Case& c : {Case{2000, 72, 0, false}, Case{2000, 72, 64, true}}) {
    const PanelWeights p = Weights(c, rng).pack();
    const int64_t rows = 601;
    const auto x = random_floats(rows * c.inner, rng);
    std::vector<float> all(sz(rows * c.columns)), one(sz(c.columns));
    p.multiply(x.data(), c.inner, rows, all.data(), c.columns);
    for (int64_t r = 0; r < rows; ++r) {
      p.multiply(&x[sz(r * c.inner)], c.inner, 1, one.data(), c.columns);
      for (int64_t n = 0; n < c.columns; ++n)
        ASSERT_NEAR(one[sz(n)], all[sz(r * c.columns + n)], 1e-5 * (1 + std::abs(one[sz(n)]))) << "row " << r;
    }
  }
}

}  // namespace
}  // namespace attune
