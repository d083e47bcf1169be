#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

// Expansion by the first row.
double determinant(const std::vector<double>& m, size_t n) {
  if (n == 0) return 1;
  double sum = 0;
  for (size_t c = 0; c < n; ++c) {
    std::vector<double> minor;
    for (size_t r = 1; r < n; ++r)
      for (size_t k = 0; k < n; ++k)
        if (k != c) minor.push_back(m[r * n + k]);
    sum += (c % 2 ? -1 : 1) * m[c] * determinant(minor, n - 1);
  }
  return sum;
}

TEST(Det, AsByExpansion) {
  for (const int64_t n : {1, 2, 3, 5}) {
    const Tensor x = random_tensor({2, n, n}, static_cast<uint32_t>(n));
    const std::vector<double> all = x.to_double();
    const Tensor want = tabulate(DataType::kFloat, {2}, [&](const Shape& i) {
      const auto size = static_cast<std::ptrdiff_t>(n * n), first = static_cast<std::ptrdiff_t>(i[0]) * size;
      return determinant({all.begin() + first, all.begin() + first + size}, static_cast<size_t>(n));
    });
    EXPECT_EQ(difference(run({"Det"}, {x}), want, 1e-6), "") << n;
  }
  EXPECT_EQ(difference(run({"Det"}, {floats({2, 2}, {0, 1, 1, 0})}), floats({}, {-1})), "");
  EXPECT_EQ(difference(run({"Det"}, {floats({2, 2}, {1, 2, 2, 4})}), floats({}, {0})), "");
  EXPECT_NE(failure({"Det"}, {counting({2, 3})}), "");
}

}  // namespace
}  // namespace attune::testing
