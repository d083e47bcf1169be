// What verification takes for a difference.
#include "convert/difference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace attune {
namespace {

Difference between(const std::vector<double>& a, const std::vector<double>& b) {
  Difference d;
  compare_values(a, b, d);
  return d;
}

TEST(Difference, IsRelativeToTheLargestNumber) {
  EXPECT_DOUBLE_EQ(between({1, 4}, {1, 3}).relative(), 0.25);
  EXPECT_DOUBLE_EQ(between({1, 4}, {1, 3}).absolute, 1);
}

TEST(Difference, FillersHideNothing) {
  for (const double filler : {-1e9, -1e15, static_cast<double>(std::numeric_limits<float>::lowest())}) {
    EXPECT_DOUBLE_EQ(between({1, 4, filler}, {1, 3, filler}).relative(), 0.25) << filler;
    EXPECT_DOUBLE_EQ(between({1, 4, filler}, {1, 4, 0.5 * filler}).relative(), 0.5) << filler;
    EXPECT_DOUBLE_EQ(between({filler, 0}, {0.5 * filler, 0}).relative(), 0.5) << "alone they are numbers: " << filler;
  }
}

TEST(Difference, WhereTheSourceGivesNoNumberAnyIsRight) {
  EXPECT_EQ(between({NAN, 2}, {5, 2}).absolute, 0);
  EXPECT_TRUE(std::isinf(between({1, 2}, {NAN, 2}).absolute));
}

}  // namespace
}  // namespace attune
