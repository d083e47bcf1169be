#include <gtest/gtest.h>

#include <random>

#include "ops/evaluate.h"

namespace attune {
namespace {

Tensor inverse(const Tensor& x) {
  Graph g;
  Node* node = g.add_node("com.microsoft", "Inverse", {g.add_input("x", ValueType::of(x.type()))});
  return evaluate(*node, 1, {Datum(x)})[0].tensor();
}

TEST(Inverse, TimesTheMatrixIsTheIdentity) {
  std::mt19937 rng(3);
  std::normal_distribution<float> normal;
  for (const int64_t n : {1, 2, 3, 7}) {
    Tensor x = Tensor::allocate(DataType::kFloat, {2, n, n});
    for (int64_t i = 0; i < x.count(); ++i) x.mutable_data<float>()[i] = normal(rng);
    x.mutable_data<float>()[0] = n > 1 ? 0.0F : 2.0F;  // needs a pivot
    const Tensor y = inverse(x);
    ASSERT_EQ(y.shape(), x.shape());
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t r = 0; r < n; ++r)
        for (int64_t c = 0; c < n; ++c) {
          double sum = 0;
          for (int64_t k = 0; k < n; ++k)
            sum += double(x.data<float>()[(b * n + r) * n + k]) * y.data<float>()[(b * n + k) * n + c];
          EXPECT_NEAR(sum, r == c ? 1 : 0, 1e-3) << "size " << n << " row " << r << " column " << c;
        }
  }
}

TEST(Inverse, RefusesWhatHasNone) {
  EXPECT_THROW(inverse(Tensor::from<float>({2, 2}, {1, 2, 2, 4})), Error);
  EXPECT_THROW(inverse(Tensor::from<float>({1, 2}, {1, 2})), Error);
  EXPECT_EQ(inverse(Tensor::allocate(DataType::kFloat, {0, 3, 3})).count(), 0);
  EXPECT_EQ(inverse(Tensor::allocate(DataType::kFloat, {2, 0, 0})).count(), 0);
}

}  // namespace
}  // namespace attune
