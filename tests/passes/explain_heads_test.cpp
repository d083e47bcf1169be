// Heads and projections that stay outside of an Attention.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/explained.h"

namespace attune {
namespace {

using test::Converted;
using test::numbers;
using testing::HasSubstr;

// Keys whose batch another input names: the heads stay outside, and the report says at which shape.
TEST(ExplainHeads, OfKeysThatAreNotTheirLastAxis) {
  const Converted c(R"(<ir_version: 8, opset_import: ["" : 17, "ai.attune" : 1]>
    g (float[B,T,8] q, float[C,S,8] k) => (float[B,T,8] y)
    <int64[1] zero = {0}, int64[1] rest = {-1}, int64[1] two = {2}, int64[1] four = {4}>
    { sq = Shape (q)
      batch = Gather (sq, zero)
      target = Concat <axis = 0> (batch, rest, two, four)
      split = Reshape (k, target)
      h = Transpose <perm = [0, 2, 1, 3]> (split)
      y = ai.attune.Attention <num_heads = 2> (q, h, h) })");
  ASSERT_EQ(c.report.near_misses.size(), 1U);
  EXPECT_THAT(c.report.near_misses[0].reason, HasSubstr("is not float(C,S,8) with its last axis split into heads"));
}

// ProphetNet: positions of several streams are projected together and sliced apart with their heads.
TEST(ExplainHeads, OfQueriesThatAreSlicedWithTheirHeads) {
  const Converted c(R"(<ir_version: 8, opset_import: ["" : 17, "ai.attune" : 1]>
    g (float[B,6,8] x, float[B,2,S,4] k) => (float[B,3,8] y)
    <int64[1] zero = {0}, int64[1] three = {3}, int64[1] axis = {2}, int64[4] heads = {0, 0, 2, 4},
     int64[3] merge = {0, 0, 8}>
    { split = Reshape (x, heads)
      h = Transpose <perm = [0, 2, 1, 3]> (split)
      q = Slice (h, zero, three, axis)
      a = ai.attune.Attention <num_heads = 2> (q, k, k)
      t = Transpose <perm = [0, 2, 1, 3]> (a)
      y = Reshape (t, merge) })");
  ASSERT_EQ(c.report.near_misses.size(), 1U);
  EXPECT_THAT(c.report.near_misses[0].reason, HasSubstr("expected Transpose, found Slice"));
}

// What isn't projected is no miss: operands that are given with heads apart, or computed so from what is.
TEST(ExplainHeads, NothingOfOperandsWithoutALayer) {
  const Converted given(R"(<ir_version: 8, opset_import: ["" : 17, "ai.attune" : 1]>
    g (float[B,2,T,4] q, float[B,2,S,4] k) => (float[B,2,T,4] y)
    { y = ai.attune.Attention <num_heads = 2> (q, k, k) })");
  EXPECT_THAT(given.report.near_misses, testing::IsEmpty());
  const Converted computed(R"(<ir_version: 8, opset_import: ["" : 17, "ai.attune" : 1]>
    g (float[B,T,8] q, float[B,2,S,4] k) => (float[B,T,8] y)
    { r = Relu (k)
      y = ai.attune.Attention <num_heads = 2> (q, r, r) })");
  EXPECT_THAT(computed.report.near_misses, testing::IsEmpty());
}

// Layers whose weights are stored as integers stay in front of an Attention.
TEST(ExplainHeads, NothingOfLayersOfIntegers) {
  const Converted c(R"(<ir_version: 8, opset_import: ["" : 17, "ai.attune" : 1]>
    g (float[B,T,4] x, float[B,S,4] k) => (float[B,T,4] y)
    <int8[4,4] w = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}, float scale = {0.1}, int8 zero = {1}>
    { d = DequantizeLinear (w, scale, zero)
      q = MatMul (x, d)
      y = ai.attune.Attention <num_heads = 2> (q, k, k) })");
  EXPECT_THAT(c.report.near_misses, testing::IsEmpty());
}

// Queries that are changed behind their split into heads, by the name of that in the field.
TEST(ExplainHeads, WhatStandsBetweenProjectionAndScores) {
  const auto reason = [](const std::string& body) {
    const Converted c(R"(<ir_version: 8, opset_import: ["" : 17, "ai.attune" : 1]>
    g (float[B,T,8] x, float[B,S,8] k, float[T,4] cos, float[T,4] sin, float[T,4] bias, float[B,2,T,4] more)
      => (float[B,T,8] y)
    <float[8,8] weight = {)" +
                      numbers(64) + R"(}, int64[4] heads = {0, 0, 2, 4}, int64[3] merge = {0, 0, 8},
     float[4] scale = {1, 2, 3, 4}, float[1] half = {0.5}, int64[2] halves = {2, 2}, int64[1] last = {-1}>
    { l = MatMul (x, weight)
      s = Reshape (l, heads)
      h = Transpose <perm = [0, 2, 1, 3]> (s)
      )" + body + R"(
      a = ai.attune.Attention <num_heads = 2> (q, k, k)
      t = Transpose <perm = [0, 2, 1, 3]> (a)
      y = Reshape (t, merge) })");
    EXPECT_EQ(c.report.near_misses.size(), 1U) << body;
    return c.report.near_misses.empty() ? "" : c.report.near_misses[0].reason;
  };
  const std::string rotated = R"(first, second = Split <axis = -1> (h, halves)
      minus = Neg (second)
      turned = Concat <axis = -1> (minus, first)
      c = Mul (h, cos)
      s2 = Mul (turned, sin)
      r = Add (c, s2))";
  const std::string norm = "square = Mul (h, h) sum = ReduceSum <keepdims = 1> (square, last) norm = Sqrt (sum) ";
  const char *kRotated = "rotated by positions", *kNormalized = "values are normalized between",
             *kJoined = "are joined with other rows by node of 'joined' (Concat) between";
  EXPECT_THAT(reason(rotated + " q = Identity (r)"), HasSubstr(kRotated));
  EXPECT_THAT(reason(rotated + " u, v = Split <axis = -1> (r, halves) q = Concat <axis = -1> (v, u)"),
              testing::Not(HasSubstr(kRotated)));
  EXPECT_THAT(reason(norm + "q = Div (h, norm)"), HasSubstr(kNormalized));
  EXPECT_THAT(reason(norm + "d = Div (h, norm) q = Mul (d, scale)"), HasSubstr(kNormalized));
  EXPECT_THAT(reason("q = LayerNormalization <axis = -1> (h, scale, scale)"), HasSubstr(kNormalized));
  EXPECT_THAT(reason("joined = Concat <axis = 2> (h, h) q = Identity (joined)"), HasSubstr(kJoined));
  EXPECT_THAT(reason("joined = Concat <axis = -2> (h, h) d = Cast <to = 1> (joined) q = Mul (d, scale)"),
              HasSubstr(kJoined));
  EXPECT_THAT(reason("joined = Concat <axis = -2> (h, h) q = Tanh (joined)"), testing::Not(HasSubstr("joined with")));
  EXPECT_THAT(reason("u, v = Split <axis = -1> (h, halves) joined = Concat <axis = -1> (v, u) q = Identity (joined)"),
              testing::Not(HasSubstr("joined with")));
  for (const char* other :
       {"c = Mul (h, cos) n = Abs (h) q = Add (c, n)", "c = Mul (h, cos) n = Abs (h) q = Add (n, c)",
        "q = Add (h, bias)", "c = Mul (h, cos) q = Add (c, bias)", "c = Mul (h, cos) q = Add (bias, c)",
        "n = Abs (h) q = Div (n, more)", "n = Abs (h) q = Div (n, half)",
        "c = Mul (h, cos) "
        "s2 = Mul (more, sin) r = Add (c, s2) q = Tanh (r)"})
    EXPECT_THAT(reason(other), testing::Not(testing::AnyOf(HasSubstr(kRotated), HasSubstr(kNormalized)))) << other;
}

// What is computed otherwise than by a constant matrix, position by position, was not meant as a projection.
TEST(ExplainHeads, OfOperandsThatNoLayerGives) {
  const auto misses = [](const std::string& inputs, const std::string& body) {
    return Converted("<ir_version: 8, opset_import: [\"\" : 17, \"ai.attune\" : 1, \"com.microsoft\" : 1]> g (" +
                     inputs +
                     R"() => (float[B,P,8] y)
      <float[2,8,8] batched = {)" +
                     numbers(128) + R"(}, float[8,8] weight = {)" + numbers(64) + R"(}, int64 one = {1},
       int64[4] heads = {0, 2, -1, 4}, float scale = {0.5}, float[8] bias = {1, 2, 3, 4, 5, 6, 7, 8}>
      { )" + body + " }")
        .report.near_misses.size();
  };
  const std::string attention = " y = ai.attune.Attention <num_heads = 2> (q, k, k)";
  EXPECT_EQ(misses("float[B,T,8] x, float[B,S,8] k", "l = MatMul (x, weight) q = Mul (l, bias)" + attention), 1U);
  EXPECT_EQ(misses("float[2,T,8] x, float[2,S,8] k", "q = MatMul (x, batched)" + attention), 0U);
  EXPECT_EQ(misses("float[B,T,8] x, float[B,S,8] k", "l = MatMul (x, weight) q = CumSum (l, one)" + attention), 0U);
  EXPECT_EQ(
      misses("float[B,T,8] q, float[B,S,8] x, float[8,8] w", "l = MatMul (x, w) k = Reshape (l, heads)" + attention),
      0U);
  EXPECT_EQ(misses("float[B,T,8] q, float[B,S,8] x, uint8[8,8] w",
                   "l = com.microsoft.DynamicQuantizeMatMul (x, w, scale, , bias) k = Reshape (l, heads)" + attention),
            0U);
}

}  // namespace
}  // namespace attune
