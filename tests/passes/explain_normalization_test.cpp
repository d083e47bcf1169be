// Weights that are normalised by hand, or by no softmax at all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/explained.h"

namespace attune {
namespace {

using test::Converted;
using test::Spoiled;
using test::SpoiledAttention;
using testing::HasSubstr;

class ExplainWeights : public testing::TestWithParam<Spoiled> {};

TEST_P(ExplainWeights, NamesNodeStepAndReason) { test::expect_explained(GetParam()); }

// Weights that are normalised by hand.
std::vector<Spoiled> spoiled_normalization() {
  using S = SpoiledAttention;
  std::vector<Spoiled> all;
  const auto add = [&](std::string name, const S& attention, std::string node, std::string reason) {
    all.push_back({std::move(name), attention.text(), "fuse_attention", "'" + node + "'", "", std::move(reason)});
  };
  const std::string exponent =
      "top = ReduceMax <axes = [-1]> (m)\n  d = Sub (m, top)\n  [exp] x2 = Exp (d)\n  last = "
      "Constant <value = int64[1] {-1}> ()\n  ";
  const auto weights = [&](const std::string& lines) { return S().with("p", exponent + lines); };
  add("softmax_plus_one",
      weights("t0 = ReduceSum (x2, last)\n  one = Constant <value = float {1}> ()\n  [more] t1 = Add "
              "(one, t0)\n  [divide] p = Div (x2, t1)"),
      "divide", "'more' (Add) adds 1 to the sum of exponentials");
  add("floor_of_the_sum",
      weights("t0 = ReduceSum (x2, last)\n  least = Constant <value = float {1e-6}> ()\n  [floor] t1 = Max "
              "(t0, least)\n  [divide] p = Div (x2, t1)"),
      "divide", "the divisor is node 'floor' (Max)");
  add("sum_of_columns",
      weights("c2 = Constant <value = int64[1] {2}> ()\n  [sum] t0 = ReduceSum (x2, c2)\n  [divide] p = Div (x2, t0)"),
      "divide", "'sum' (ReduceSum) sums weights over other axes than the last one");
  add("sigmoid",
      weights("g = Sigmoid (m)\n  t0 = ReduceSum (g, last)\n  t1 = Reciprocal (t0)\n  [times] p = Mul (t1, g)"),
      "times", "made positive by");
  add("sum_of_two_axes",
      weights(
          "c2 = Constant <value = int64[2] {-1, 1}> ()\n  [sum] t0 = ReduceSum (x2, c2)\n  [divide] p = Div (x2, t0)"),
      "divide", "'sum' (ReduceSum) sums weights over other axes than the last one");
  add("sum_of_all_axes", weights("[sum] t0 = ReduceSum (x2)\n  [divide] p = Div (x2, t0)"), "divide",
      "'sum' (ReduceSum) sums weights over other axes than the last one");
  add("masked_exponentials", weights("x3 = Mul (x2, mask)\n  t0 = ReduceSum (x3, last)\n  [divide] p = Div (x3, t0)"),
      "divide", "exponentials go through");
  add("divided_context",
      S().with("p", exponent + "t0 = ReduceSum (x2, last)")
          .with("c", "[context] c0 = MatMul (x2, v)\n  [divide] c = Div (c0, t0)"),
      "divide", "the product with the values is divided");
  return all;
}

INSTANTIATE_TEST_SUITE_P(Normalised, ExplainWeights, testing::ValuesIn(spoiled_normalization()), test::spoiled_name);

// Quotients by sums of weights that are no weights of values.
TEST(ExplainNormalization, OtherQuotientsAreNotNamed) {
  const auto misses = [](const std::string& body) {
    std::vector<std::string> reasons;
    for (const NearMiss& miss : Converted(R"(<ir_version: 8, opset_import: ["" : 17]>
      g (float[B,2,T,S] e, float[B,2,T,S] a, float[B,2,S,5] v) => (float[B,2,T,M] y)
      <int64[1] last = {-1}, float one = {1}>
      { x = Exp (e)
        t = ReduceSum (x, last)
        )" + body + " }")
                                    .report.near_misses)
      reasons.push_back(miss.reason);
    return reasons;
  };
  EXPECT_THAT(misses("more = Add (t, one) p = Div (x, more) y = MatMul (p, v)"), testing::SizeIs(1));
  EXPECT_THAT(misses("more = Add (t, one) y = Div (x, more)"), testing::IsEmpty()) << "weights of nothing";
  EXPECT_THAT(misses("p = Div (a, t) y = MatMul (p, v)"), testing::IsEmpty()) << "an input";
  EXPECT_THAT(misses("m = Mul (a, one) n = Mul (m, a) p = Div (n, t) y = MatMul (p, v)"), testing::IsEmpty());
  EXPECT_THAT(misses("n = Cos (x) p = Div (n, t) y = MatMul (p, v)"), testing::IsEmpty()) << "another function";
  EXPECT_THAT(misses("m = Sub (x, one) s = ReduceSum (m, last) p = Div (m, s) y = MatMul (p, v)"), testing::IsEmpty())
      << "may be negative";
}

// --- attention without a softmax

TEST(ExplainLinearAttention, SumOverPositionsBeforeQueries) {
  const std::string text = R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[B,2,T,4] q, float[B,2,S,4] k, float[B,2,S,5] v) => (float[B,2,T,5] y)
    { a = Relu (q)
      b = Relu (k)
      t = Transpose <perm = [0, 1, 3, 2]> (b)
      [memory] m = MatMul (t, v)
      [readout] y = MatMul (a, m) })";
  const Converted c(text);
  EXPECT_EQ(c.attentions, 0U);
  ASSERT_EQ(c.report.near_misses.size(), 1U);
  EXPECT_THAT(c.report.near_misses[0].anchor, HasSubstr("'readout'"));
  EXPECT_THAT(c.report.near_misses[0].reason, HasSubstr("multiplies queries with node 'memory'"));
  EXPECT_THAT(c.report.near_misses[0].reason, HasSubstr("linear attention"));
}

TEST(ExplainLinearAttention, EinsumWithItsDivisor) {
  const std::string text = R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[B,2,T,4] q, float[B,2,S,4] k, float[B,2,S,5] v, float[B,2,T] z) => (float[B,2,T,5] y)
    { [memory] m = Einsum <equation = "bhsd,bhse->bhde"> (k, v)
      [readout] y = Einsum <equation = "bhtd,bhde,bht->bhte"> (q, m, z) })";
  const Converted c(text);
  ASSERT_EQ(c.report.near_misses.size(), 1U);
  EXPECT_THAT(c.report.near_misses[0].reason, HasSubstr("linear attention"));
}

// Products of products that sum over no positions: the widths of both are constants, or nothing says that they are.
TEST(ExplainLinearAttention, OtherProductsAreNotNamed) {
  const auto misses = [](const std::string& k, const std::string& v) {
    return Converted(R"(<ir_version: 8, opset_import: ["" : 17]>
      g (float[B,2,T,4] q, float)" +
                     k + " k, float" + v + R"( v) => (float[B,2,T,M] y)
      { m = MatMul (k, v)
        y = MatMul (q, m) })")
        .report.near_misses.size();
  };
  EXPECT_EQ(misses("[B,2,4,3]", "[B,2,3,5]"), 0U);
  EXPECT_EQ(misses("[B,2,4,S]", "[B,2,S,N]"), 0U);
  EXPECT_EQ(misses("[B,2,4,S]", "[B,2,S,5]"), 1U);
}

TEST(ExplainLinearAttention, ProductsWithWeightsAreNotNamed) {
  const auto misses = [](const std::string& inputs, const std::string& body) {
    return Converted("<ir_version: 8, opset_import: [\"\" : 17]> g (float[B,4,S] k, " + inputs +
                     R"() => (float[B,T,M] y)
      <float[2,4] row = {1, 2, 3, 4, 5, 6, 7, 8}, float[1,3,4] left = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3},
       float[1,4,3] right = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}>
      { )" + body + " }")
        .report.near_misses.size();
  };
  EXPECT_EQ(misses("float[B,T,4] q, float[B,S,5] v", "m = MatMul (k, v) y = MatMul (q, m)"), 1U);
  EXPECT_EQ(misses("float[B,T,4] q, float[4,R] a, float[R,5] b", "m = MatMul (a, b) y = MatMul (q, m)"), 0U)
      << "factors of a weight";
  EXPECT_EQ(misses("float[B,T,M] q, float[B,M,S] l, float[B,S,5] v", "m = MatMul (l, v) y = MatMul (q, m)"), 0U)
      << "any number of rows";
  EXPECT_EQ(misses("float[B,S,5] v", "m = MatMul (k, v) y = MatMul (row, m)"), 0U) << "constant queries";
  EXPECT_EQ(misses("float[B,T,4] q, float[B,S,5] v", "s = MatMul (q, k) w = Relu (s) y = MatMul (w, v)"), 1U);
  EXPECT_EQ(misses("float[B,S,5] v", "s = MatMul (left, k) w = Relu (s) y = MatMul (w, v)"), 0U) << "no queries";
  EXPECT_EQ(misses("float[B,T,4] q, float[B,3,5] v", "s = MatMul (q, right) w = Relu (s) y = MatMul (w, v)"), 0U)
      << "no keys";
}

TEST(ExplainNormalization, ProductsOfPositiveFeatures) {
  const Converted c(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[B,2,T,4] q, float[B,2,4,S] k, float[B,2,S,5] v) => (float[B,2,T,5] y) <int64[1] last = {-1}>
    { [map] a = Relu (q)
      b = Relu (k)
      w = MatMul (a, b)
      t = ReduceSum (w, last)
      [divide] p = Div (w, t)
      y = MatMul (p, v) })");
  ASSERT_EQ(c.report.near_misses.size(), 1U);
  EXPECT_THAT(c.report.near_misses[0].anchor, HasSubstr("'divide'"));
  EXPECT_THAT(c.report.near_misses[0].reason, HasSubstr("products of features that node 'map' (Relu) makes positive"));
}

}  // namespace
}  // namespace attune
