// Heads and projections that stay outside of an Attention.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/explained.h"

namespace attune {
namespace {

using test::Converted;
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

}  // namespace
}  // namespace attune
