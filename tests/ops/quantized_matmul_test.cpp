#include <gtest/gtest.h>

#include "tests/ops/node_runner.h"

namespace attune::testing {
namespace {

template <class A, class B>
void check_exact(int64_t rows, int64_t k, int64_t n, size_t first_constant) {
  const Tensor a = random_integers<A>({rows, k}, 1, std::numeric_limits<A>::min(), std::numeric_limits<A>::max());
  const Tensor b = random_integers<B>({k, n}, 2, std::numeric_limits<B>::min(), std::numeric_limits<B>::max());
  const Tensor a_zero = random_integers<A>({}, 3, 0, 100), b_zero = random_integers<B>({n}, 4, 0, 100);
  std::vector<double> want;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < n; ++j) {
      int64_t sum = 0;
      for (int64_t p = 0; p < k; ++p)
        sum += (int64_t{a.data<A>()[i * k + p]} - a_zero.data<A>()[0]) *
               (int64_t{b.data<B>()[p * n + j]} - b_zero.data<B>()[j]);
      want.push_back(static_cast<double>(sum));
    }
  const auto y = run_node({.type = "MatMulInteger", .first_constant = first_constant}, {a, b, a_zero, b_zero});
  EXPECT_EQ(y[0].tensor().to_double(), want) << rows << " x " << k << " x " << n;
}

// Full-range values: products added in 16 bits would saturate.
TEST(MatMulInteger, ExactForEveryTypeAndForm) {
  for (const size_t constant : {size_t{1}, ~size_t{0}})
    for (const int64_t rows : {1, 3, 20})
      for (const int64_t k : {1, 63, 200})
        for (const int64_t n : {1, 6, 65}) {
          check_exact<uint8_t, int8_t>(rows, k, n, constant);
          check_exact<uint8_t, uint8_t>(rows, k, n, constant);
          check_exact<int8_t, int8_t>(rows, k, n, constant);
          check_exact<int8_t, uint8_t>(rows, k, n, constant);
        }
}

TEST(MatMulInteger, BatchesBroadcast) {
  const Tensor a = random_integers<uint8_t>({2, 1, 3, 5}, 1, 0, 255),
               b = random_integers<int8_t>({4, 5, 2}, 2, -128, 127);
  const auto y = run_node({.type = "MatMulInteger"}, {a, b});
  ASSERT_EQ(y[0].tensor().shape(), (Shape{2, 4, 3, 2}));
  const auto x = a.to_double(), w = b.to_double(), got = y[0].tensor().to_double();
  for (size_t i = 0; i < 2; ++i)
    for (size_t h = 0; h < 4; ++h)
      for (size_t m = 0; m < 3; ++m)
        for (size_t n = 0; n < 2; ++n) {
          double sum = 0;
          for (size_t k = 0; k < 5; ++k) sum += x[(i * 3 + m) * 5 + k] * w[(h * 5 + k) * 2 + n];
          EXPECT_EQ(got[((i * 4 + h) * 3 + m) * 2 + n], sum);
        }
}

Tensor bytes(const Shape& shape) { return random_integers<uint8_t>(shape, 1, 0, 9); }

// Scales, zero points and biases: one, or one for each row or column; else they would be read beyond their end.
TEST(QuantizedProducts, RefuseCountsThatDoNotFit) {
  struct Row {
    NodeUnderTest node;
    std::vector<Tensor> inputs;
    std::vector<size_t> counted;  // of 5, or per column of 5
  };
  const Tensor a = bytes({2, 3, 4}), b = bytes({4, 5}), batch = bytes({2, 4, 5}), one = random_tensor({}, 1),
               five = random_tensor({5}, 2, 1, 2), zero = bytes({}), zeros = bytes({5});
  const std::vector<Row> rows{
      {{.type = "MatMulInteger"}, {a, b, zero, zeros}, {2, 3}},
      {{.type = "MatMulInteger"}, {a, batch, zero, zeros}, {2, 3}},
      {{.type = "QLinearMatMul"}, {a, one, zero, b, five, zeros, one, zero}, {1, 2, 4, 5, 6, 7}},
      {{.type = "DynamicQuantizeMatMul", .domain = "com.microsoft", .opset = 1},
       {random_tensor({2, 3, 4}, 1), b, five, zeros, five},
       {2, 3, 4}},
      {{.type = "MatMulIntegerToFloat", .domain = "com.microsoft", .opset = 1},
       {a, b, one, five, zero, zeros, five},
       {2, 3, 4, 5, 6}},
      {{.type = "QLinearConv"},
       {bytes({1, 2, 6}), one, zero, bytes({5, 2, 3}), five, zeros, one, zero, random_integers<int32_t>({5}, 1, 0, 9)},
       {1, 2, 4, 5, 6, 7, 8}}};
  for (const Row& row : rows) {
    EXPECT_NO_THROW(run_node(row.node, row.inputs)) << row.node.type;
    for (const size_t i : row.counted)
      for (const int64_t count : {0, 2, 4, 7}) {
        auto inputs = row.inputs;
        inputs[i] = Tensor::allocate(inputs[i].type(), {count});
        std::fill_n(inputs[i].mutable_raw(), inputs[i].bytes(), std::byte{1});
        EXPECT_THROW(run_node(row.node, inputs), Error) << row.node.type << " input " << i << " of " << count;
      }
  }
}

// A scale for each column of each matrix of a batch, and for each row, by the formula.
TEST(QLinearMatMul, ScalesOfEveryGranularity) {
  const Tensor a = bytes({2, 3, 4}), b = random_integers<int8_t>({2, 4, 5}, 2, -9, 9), zero = bytes({}),
               b_zero = random_integers<int8_t>({}, 3, 1, 4);
  const auto check = [&](const Tensor& a_scale, const Tensor& b_scale) {
    const auto y = run_node({.type = "QLinearMatMul"},
                            {a, a_scale, zero, b, b_scale, b_zero, Tensor::scalar(0.5F), Tensor::scalar<uint8_t>(99)});
    const auto got = y[0].tensor().to_double(), x = a.to_double(), w = b.to_double(), as = a_scale.to_double(),
               bs = b_scale.to_double();
    for (size_t i = 0; i < got.size(); ++i) {
      const size_t row = i / 5, column = i % 5, matrix = row / 3;
      double sum = 0;
      for (size_t k = 0; k < 4; ++k)
        sum += (x[row * 4 + k] - zero.to_double()[0]) * (w[(matrix * 4 + k) * 5 + column] - b_zero.to_double()[0]);
      const double scale = as[as.size() == 3 ? row % 3 : row] * bs[bs.size() == 5 ? column : matrix * 5 + column] / 0.5;
      EXPECT_NEAR(got[i], std::clamp(sum * scale + 99, 0.0, 255.0), 0.51);
    }
  };
  for (const int64_t rows : {3, 6})
    for (const int64_t columns : {5, 10})
      check(random_tensor({rows}, 4, 0.1F, 0.9F), random_tensor({columns}, 5, 0.1F, 0.9F));
}

TEST(QLinearConv, TakesABiasOfInt32Only) {
  const Tensor one = random_tensor({}, 1), zero = bytes({});
  EXPECT_THROW(run_node({.type = "QLinearConv"}, {bytes({1, 2, 600}), one, zero, bytes({64, 2, 3}), one, zero, one,
                                                  zero, random_tensor({64}, 1)}),
               Error);
}

TEST(EmbedLayerNormalization, RefusesCountsThatDoNotFit) {
  const NodeUnderTest node{.type = "EmbedLayerNormalization", .domain = "com.microsoft", .opset = 1, .outputs = 2};
  const Tensor ids = Tensor::from<int32_t>({1, 2}, {0, 1}), table = random_tensor({3, 4}, 1),
               four = random_tensor({4}, 2);
  const std::vector<Tensor> inputs{ids, Tensor(), table, table, Tensor(), four, four, ids};
  EXPECT_NO_THROW(run_node(node, inputs));
  for (const size_t i : {5, 6, 7})
    for (const int64_t count : {0, 1, 3}) {
      auto wrong = inputs;
      wrong[i] = i == 7 ? random_integers<int32_t>({count}, 1, 0, 1) : random_tensor({count}, 1);
      EXPECT_THROW(run_node(node, wrong), Error) << i;
    }
}

TEST(DynamicQuantizeMatMul, StaysWithinTheQuantisationStep) {
  const Tensor a = random_tensor({6, 40}, 1), b = random_integers<int8_t>({40, 9}, 2, -60, 60),
               scale = random_tensor({9}, 3, 0.01F, 0.02F), bias = random_tensor({9}, 4);
  const auto y = run_node({.type = "DynamicQuantizeMatMul", .domain = "com.microsoft", .opset = 1, .first_constant = 1},
                          {a, b, scale, Tensor(), bias});
  for (int64_t i = 0; i < 6; ++i)
    for (int64_t j = 0; j < 9; ++j) {
      double sum = static_cast<double>(bias.data<float>()[j]), bound = 1e-4;
      for (int64_t k = 0; k < 40; ++k) {
        const double w = b.data<int8_t>()[k * 9 + j] * static_cast<double>(scale.data<float>()[j]);
        sum += static_cast<double>(a.data<float>()[i * 40 + k]) * w;
        bound += std::abs(w) * (2.0 / 255) * 0.51;  // the range of a is 2 at most
      }
      EXPECT_NEAR(y[0].tensor().to_double()[static_cast<size_t>(i * 9 + j)], sum, bound);
    }
}

}  // namespace
}  // namespace attune::testing
