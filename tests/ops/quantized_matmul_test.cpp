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
