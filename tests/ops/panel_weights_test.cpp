#include "ops/support/panel_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace attune {
namespace {

// The product, its magnitude for tolerances, and the epilogue, in double.
struct Reference {
  double value, magnitude;
};

double apply(Activation a, double x) {
  switch (a) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return std::max(x, 0.0);
    case Activation::kGelu:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
    case Activation::kTanh:
      return std::tanh(x);
    case Activation::kSigmoid:
      return 1 / (1 + std::exp(-x));
  }
  return x;
}

std::vector<float> random_floats(size_t n, std::mt19937& rng) {
  std::normal_distribution<float> normal;
  std::vector<float> v(n);
  for (float& x : v) x = normal(rng);
  return v;
}

class PanelProduct : public testing::TestWithParam<std::tuple<int, int, int>> {};

TEST_P(PanelProduct, EqualsTheDefinitionForEveryStorage) {
  const auto [K, N, M] = GetParam();
  std::mt19937 rng(static_cast<unsigned>(K * 1000 + N * 10 + M));
  const auto sz = [](int n) { return static_cast<size_t>(n); };
  const auto x = random_floats(sz(M * K), rng), bias = random_floats(sz(N), rng),
             residual = random_floats(sz(M * N), rng);
  const auto values = random_floats(sz(K * N), rng);
  for (const bool transposed : {false, true}) {
    const Shape shape = transposed ? Shape{N, K} : Shape{K, N};
    for (const DataType type :
         {DataType::kFloat, DataType::kFloat16, DataType::kBFloat16, DataType::kInt8, DataType::kInt4}) {
      const int64_t group = K >= 64 ? 32 : 0;
      const int groups = group ? (K + 31) / 32 : 1;
      Tensor w = Tensor::allocate(type, shape), scales = Tensor::allocate(DataType::kFloat, {groups, N});
      std::vector<double> exact(sz(K * N));  // in the layout of w
      for (int i = 0; i < groups * N; ++i) scales.mutable_data<float>()[i] = 0.01F * static_cast<float>(1 + i % 5);
      for (int i = 0; i < K * N; ++i) {
        const int k = transposed ? i % K : i / N, n = transposed ? i / K : i % N;
        const double scale = scales.data<float>()[(group ? k / 32 : 0) * N + n];
        const int q = static_cast<int>(rng() % 255) - 127, q4 = q % 8;
        switch (type) {
          case DataType::kFloat:
            exact[sz(i)] = w.mutable_data<float>()[i] = values[sz(i)];
            break;
          case DataType::kFloat16:
            exact[sz(i)] = float(w.mutable_data<Float16>()[i] = Float16(values[sz(i)]));
            break;
          case DataType::kBFloat16:
            exact[sz(i)] = float(w.mutable_data<BFloat16>()[i] = BFloat16(values[sz(i)]));
            break;
          case DataType::kInt8:
            exact[sz(i)] = (w.mutable_data<int8_t>()[i] = static_cast<int8_t>(q)) * scale;
            break;
          default: {
            auto* byte = reinterpret_cast<uint8_t*>(w.mutable_raw()) + i / 2;
            const auto nibble = static_cast<unsigned>(q4) & 15U;
            *byte = static_cast<uint8_t>(i % 2 == 0 ? nibble : *byte | (nibble << 4));
            exact[sz(i)] = q4 * scale;
          }
        }
      }
      const bool quantized = type == DataType::kInt8 || type == DataType::kInt4;
      const PanelWeights p =
          quantized ? PanelWeights::pack_quantized(w, transposed, scales, group) : PanelWeights::pack(w, transposed);
      for (const Activation a : {Activation::kNone, Activation::kRelu, Activation::kGelu, Activation::kGeluTanh,
                                 Activation::kSilu, Activation::kTanh, Activation::kSigmoid}) {
        std::vector<float> y(sz(M * N));
        p.multiply(x.data(), K, M, y.data(), N, {bias.data(), a, residual.data(), N});
        for (int m = 0; m < M; ++m)
          for (int n = 0; n < N; ++n) {
            double sum = bias[sz(n)], magnitude = 1;
            for (int k = 0; k < K; ++k) {
              const double term = double(x[sz(m * K + k)]) * exact[sz(transposed ? n * K + k : k * N + n)];
              sum += term;
              magnitude += std::abs(term);
            }
            const double expected = apply(a, sum) + residual[sz(m * N + n)];
            ASSERT_NEAR(y[sz(m * N + n)], expected, 1e-6 * magnitude)
                << name(type) << " K " << K << " N " << N << " row " << m << " column " << n << " activation "
                << int(a);
          }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, PanelProduct,
                         testing::Combine(testing::Values(1, 7, 64, 129), testing::Values(1, 15, 16, 17, 100),
                                          testing::Values(1, 2, 3, 5, 8, 9, 20)));

TEST(PanelWeights, ResidualMayBeTheResult) {
  std::mt19937 rng(6);
  const int K = 40, N = 50, M = 11;
  const auto x = random_floats(static_cast<size_t>(M * K), rng),
             values = random_floats(static_cast<size_t>(K * N), rng),
             residual = random_floats(static_cast<size_t>(M * N), rng);
  const PanelWeights p = PanelWeights::pack(Tensor::from<float>({K, N}, values), false);
  std::vector<float> apart(residual.size()), in_place = residual;
  p.multiply(x.data(), K, M, apart.data(), N, {nullptr, Activation::kTanh, residual.data(), N});
  p.multiply(x.data(), K, M, in_place.data(), N, {nullptr, Activation::kTanh, in_place.data(), N});
  EXPECT_EQ(apart, in_place);
}

TEST(PanelWeights, SideBySideIsOneProduct) {
  std::mt19937 rng(7);
  const int K = 33;
  const auto x = random_floats(static_cast<size_t>(2 * K), rng);
  std::vector<PanelWeights> parts;
  for (const int64_t n : {16, 48, 20}) {
    Tensor w = Tensor::allocate(DataType::kInt8, {K, n});
    for (int64_t i = 0; i < w.count(); ++i) w.mutable_data<int8_t>()[i] = static_cast<int8_t>(rng() % 255 - 127);
    Tensor scales = Tensor::allocate(DataType::kFloat, {2, n});
    for (int64_t i = 0; i < scales.count(); ++i) scales.mutable_data<float>()[i] = 0.01F * static_cast<float>(i + 1);
    parts.push_back(PanelWeights::pack_quantized(w, false, scales, 32));
  }
  const PanelWeights* const all[] = {&parts[0], &parts[1], &parts[2]};
  const PanelWeights joint = PanelWeights::side_by_side(all);
  ASSERT_TRUE(joint.defined());
  std::vector<float> together(2 * 84), alone(2 * 84);
  joint.multiply(x.data(), K, 2, together.data(), 84);
  int64_t column = 0;
  for (const PanelWeights& p : parts) {
    p.multiply(x.data(), K, 2, alone.data() + column, 84);
    column += p.columns();
  }
  EXPECT_EQ(together, alone);
  const PanelWeights* const unaligned[] = {&parts[2], &parts[0]};
  EXPECT_FALSE(PanelWeights::side_by_side(unaligned).defined());
}

TEST(PanelWeights, LargeProductsRunOnThreads) {
  std::mt19937 rng(5);
  const int K = 96, N = 3000;
  const auto x = random_floats(K, rng);
  const auto values = random_floats(static_cast<size_t>(K * N), rng);
  const PanelWeights p = PanelWeights::pack(Tensor::from<float>({K, N}, values), false);
  std::vector<float> y(N);
  p.multiply(x.data(), K, 1, y.data(), N);
  for (int n = 0; n < N; ++n) {
    double sum = 0;
    for (int k = 0; k < K; ++k) sum += double(x[static_cast<size_t>(k)]) * values[static_cast<size_t>(k * N + n)];
    ASSERT_NEAR(y[static_cast<size_t>(n)], sum, 1e-4);
  }
}

// Many rows are cut into blocks.
TEST(PanelWeights, ManyRowsAreEachAsAlone) {
  std::mt19937 rng(8);
  const int64_t K = 600, N = 72, rows = 701;
  const auto sz = [](int64_t n) { return static_cast<size_t>(n); };
  const auto x = random_floats(sz(rows * K), rng), values = random_floats(sz(K * N), rng);
  for (const DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kBFloat16}) {
    Tensor w = Tensor::allocate(type, {K, N});
    for (int64_t i = 0; i < K * N; ++i) {
      if (type == DataType::kFloat) w.mutable_data<float>()[i] = values[sz(i)];
      if (type == DataType::kFloat16) w.mutable_data<Float16>()[i] = Float16(values[sz(i)]);
      if (type == DataType::kBFloat16) w.mutable_data<BFloat16>()[i] = BFloat16(values[sz(i)]);
    }
    const PanelWeights p = PanelWeights::pack(w, false);
    std::vector<float> all(sz(rows * N)), one(sz(N));
    p.multiply(x.data(), K, rows, all.data(), N);
    for (int64_t r = 0; r < rows; ++r) {
      p.multiply(&x[sz(r * K)], K, 1, one.data(), N);
      for (int64_t n = 0; n < N; ++n) ASSERT_NEAR(one[sz(n)], all[sz(r * N + n)], 1e-3) << name(type) << " row " << r;
    }
  }
}

TEST(PanelWeights, RefusesWhatDoesNotFit) {
  EXPECT_THROW(PanelWeights::pack(Tensor::from<float>({2}, {1, 2}), false), Error);
  EXPECT_THROW(PanelWeights::pack(Tensor::from<int64_t>({1, 2}, {1, 2}), false), Error);
  EXPECT_THROW(PanelWeights::pack_quantized(Tensor::from<int8_t>({2, 2}, {1, 2, 3, 4}), false,
                                            Tensor::from<float>({3}, {1, 1, 1}), 0),
               Error);
}

TEST(Activate, KeepsSpecialValues) {
  std::vector<float> v = {-0.0F, 100.0F, -100.0F, 1e-20F};
  activate(Activation::kGelu, v.data(), 4);
  EXPECT_EQ(v[0], 0.0F);
  EXPECT_EQ(v[1], 100.0F);
  EXPECT_EQ(v[2], 0.0F);
  EXPECT_FLOAT_EQ(v[3], 0.5e-20F);
  float nan = std::nanf("");
  activate(Activation::kRelu, &nan, 1);
  EXPECT_TRUE(std::isnan(nan));
}

}  // namespace
}  // namespace attune
