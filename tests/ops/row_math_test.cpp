// What search asks of rows of scores, against loops.
#include "ops/support/row_math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace attune {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(RowMath, ArgmaxIsTheFirstOfTheLargest) {
  std::mt19937 rng(1);
  for (int64_t n = 1; n < 100; ++n) {
    std::vector<float> x(static_cast<size_t>(n));
    for (float& v : x) v = static_cast<float>(rng() % 7);  // many equal ones
    EXPECT_EQ(argmax_row(x.data(), n), std::max_element(x.begin(), x.end()) - x.begin()) << n;
    std::fill(x.begin(), x.end(), -kInfinity);
    EXPECT_EQ(argmax_row(x.data(), n), 0);
    x.back() = -5;
    x.front() = n > 1 ? std::nanf("") : -5;
    EXPECT_EQ(argmax_row(x.data(), n), n - 1);
  }
}

TEST(RowMath, FindAboveIsTheNextLargerOne) {
  std::mt19937 rng(2);
  for (int64_t n = 1; n < 100; ++n) {
    std::vector<float> x(static_cast<size_t>(n));
    for (float& v : x) v = static_cast<float>(rng() % 10);
    x[static_cast<size_t>(n) / 2] = std::nanf("");
    for (const float bound : {-kInfinity, 3.0F, 8.0F, 9.0F})
      for (int64_t begin = 0; begin <= n; ++begin) {
        int64_t expected = begin;
        while (expected < n && !(x[static_cast<size_t>(expected)] > bound)) ++expected;
        ASSERT_EQ(find_above(x.data(), begin, n, bound), expected) << n << " from " << begin << " above " << bound;
      }
  }
}

}  // namespace
}  // namespace attune
