// What exporters vary, and must not matter.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/explained.h"

namespace attune {
namespace {

using test::Converted;
using test::SpoiledAttention;

class ExporterVariants : public testing::TestWithParam<std::pair<const char*, SpoiledAttention>> {};

TEST_P(ExporterVariants, StillFuses) {
  const Converted c(GetParam().second);
  EXPECT_EQ(c.attentions, 1U);
  EXPECT_THAT(c.report.near_misses, testing::IsEmpty());
  c.expect_same();
}

std::vector<std::pair<const char*, SpoiledAttention>> varied() {
  using S = SpoiledAttention;
  return {
      {"root_of_scale_on_both",
       S().with("s", "")
           .with("m", "[masked] m = Add (e, mask)")
           .with("e", "a = Sqrt (root)\n  q2 = Div (q, a)\n  k2 = Div (k, a)\n  [scores] e = MatMul (q2, k2)")},
      {"guard_against_nan",
       S().with("c",
                "n = IsNaN (p)\n  zero = Sub (root, root)\n  g = Where (n, zero, p)\n  [context] c = MatMul (g, v)")},
      {"scale_before_heads", S().with("s", "")
                                 .with("m", "[masked] m = Add (e, mask)")
                                 .with("q0", "q00 = MatMul (x, wq)\n  q0 = Div (q00, root)")},
      {"key_transposed_apart",
       S().with("k", "kh = Transpose <perm = [0, 2, 1, 3]> (k1)\n  k = Transpose <perm = [0, 1, 3, 2]> (kh)")},
      {"mask_first_operand", S().with("m", "[masked] m = Add (mask, s)")},
      {"no_mask", S().with("m", "").with("p", "[softmax] p = Softmax <axis = -1> (s)")},
      {"axis_counted_from_front", S().with("p", "[softmax] p = Softmax <axis = 3> (m)")},
      {"cast_around_softmax",
       S().with("p", "m2 = Cast <to = 11> (m)\n  [softmax] p0 = Softmax <axis = -1> (m2)\n  p = Cast <to = 1> (p0)")},
      {"softmax_by_logarithm", S().with("p", "l = ReduceLogSumExp <axes = [-1]> (m)\n  d = Sub (m, l)\n  p = Exp (d)")},
      {"softmax_by_reciprocal",
       S().with(
           "p",
           "x2 = Exp (m)\n  last = Constant <value = int64[1] {-1}> ()\n  t0 = ReduceSum (x2, last)\n  t1 = Reciprocal "
           "(t0)\n  p = Mul (x2, t1)")},
      {"identity_between", S().with("s", "[scale] s0 = Div (e, root)\n  s = Identity (s0)")}};
}

INSTANTIATE_TEST_SUITE_P(Exporters, ExporterVariants, testing::ValuesIn(varied()),
                         [](const auto& info) { return std::string(info.param.first); });

}  // namespace
}  // namespace attune
