// Attention over neighbours alone, and positions that a table is clipped to: what they are, and that they stay.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/explained.h"

namespace attune {
namespace {

using test::Converted;
using testing::HasSubstr;

// Longformer's: each query's weights, of its neighbours, are moved to where these are in blocks.
TEST(ExplainLocalAttention, WeightsInBlocks) {
  const Converted c(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[B,8,6] e, float[B,10,3] v) => (float[B,8,3] y)
    <int64[6] pads = {0, 0, 0, 0, 0, 4}, int64[3] rows = {0, 8, 10}>
    { [softmax] p = Softmax <axis = -1> (e)
      q = Pad (p, pads)
      r = Reshape (q, rows)
      y = MatMul (r, v) })");
  ASSERT_EQ(c.report.near_misses.size(), 1U);
  EXPECT_THAT(c.report.near_misses[0].anchor, HasSubstr("'softmax'"));
  EXPECT_THAT(c.report.near_misses[0].reason, HasSubstr("blocks of neighbouring positions"));
}

// Beyond the table a Clip gives its last row.
TEST(ExplainPositions, ThatAreClippedToTheTable) {
  const auto notes = [](const std::string& rows, const std::string& table = "float[4,1]") {
    return Converted(R"(<ir_version: 8, opset_import: ["" : 17]>
      g (float[B,T,1] x) => (float[B,T,1] y)
      <)" + table +
                     R"( table = {1, 2, 3, 4}, int64 zero = {0}, int64 one = {1}, int64 three = {3}>
      { shape = Shape (x)
        n = Gather (shape, one)
        all = Range (zero, n, one) )" +
                     rows + R"( [look] p = Gather (table, rows)
        y = Add (x, p) })")
        .report.notes;
  };
  EXPECT_THAT(notes("[bound] rows = Clip (all, zero, three)"),
              testing::Contains(testing::AllOf(HasSubstr("'look'"), HasSubstr("'bound' (Clip) clips"))));
  EXPECT_THAT(notes("[bound] rows = Min (all, three)"), testing::Contains(HasSubstr("'bound' (Min) clips")));
  EXPECT_THAT(notes("rows = Mul (all, three)"), testing::IsEmpty());
  EXPECT_THAT(notes("rows = Min (all, three)", "float[4,1,1]"), testing::IsEmpty());
}

}  // namespace
}  // namespace attune
