// Quantised models that round in another place than their source, and such that compute something else.
#include <gtest/gtest.h>

#include "convert/verify.h"
#include "graph/io/text.h"

namespace attune {
namespace {

// The fifth power of x w, which amplifies what rounding x to 8 bits costs.
Model source() {
  return parse_model(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[N,4] x) => (float[N,2] y) <int8[4,2] w = {3, -5, 7, 2, -1, 9, 4, -8}, float five = {5}>
    {
      q, scale, zero = DynamicQuantizeLinear (x)
      i = MatMulInteger (q, w, zero)
      f = Cast <to = 1> (i)
      p = Mul (f, scale)
      y = Pow (p, five)
    })");
}

// Its halves are rounded by scales of their own; the second one counts `factor` times.
Model in_halves(const std::string& factor) {
  return parse_model(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[N,4] x) => (float[N,2] y)
    <int8[2,2] u = {3, -5, 7, 2}, int8[2,2] w = {-1, 9, 4, -8}, float five = {5}, float c = {)" +
                     factor + R"(}>
    {
      a, b = Split <axis = 1> (x)
      qa, sa, za = DynamicQuantizeLinear (a)
      qb, sb, zb = DynamicQuantizeLinear (b)
      ia = MatMulInteger (qa, u, za)
      ib = MatMulInteger (qb, w, zb)
      fa = Cast <to = 1> (ia)
      fb = Cast <to = 1> (ib)
      pa = Mul (fa, sa)
      pb = Mul (fb, sb)
      pc = Mul (pb, c)
      p = Add (pa, pc)
      y = Pow (p, five)
    })");
}

TEST(VerifyMeaning, OnlyRoundingLiesBetweenThem) {
  const Verification v = verify(source(), in_halves("1"), {});
  EXPECT_GT(v.largest_relative, v.tolerance);
  ASSERT_TRUE(v.reference);
  EXPECT_TRUE(v.reference->mean_the_same());
}

TEST(VerifyMeaning, AnotherFactorIsFoundBelowTheRounding) {
  const Verification v = verify(source(), in_halves("1.001"), {});
  EXPECT_GT(v.largest_relative, v.tolerance);
  ASSERT_TRUE(v.reference);
  ASSERT_TRUE(v.reference->meaning);
  EXPECT_FALSE(v.reference->mean_the_same());
  EXPECT_LT(*v.reference->meaning, 1e-2);
}

}  // namespace
}  // namespace attune
