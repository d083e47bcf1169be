// Which float masks a report says to stay.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/explained.h"

namespace attune {
namespace {

using test::Converted;
using testing::HasSubstr;

std::vector<std::string> notes(const std::string& attributes) {
  return Converted(R"(<ir_version: 8, opset_import: ["" : 17, "ai.attune" : 1]>
    g (float[B,T,8] x, float[B,2,T,T] bias) => (float[B,T,8] y)
    { y = ai.attune.Attention <num_heads = 2)" +
                   attributes + "> (x, , , , , , , , , bias) }")
      .report.notes;
}

TEST(ExplainMasks, ThatAreNotFollowed) {
  EXPECT_THAT(notes(""), testing::ElementsAre(HasSubstr("not computed from positions and input masks alone")));
}

// A condition is a mask as simple as one can be.
TEST(ExplainMasks, NotConditions) {
  const Converted c(R"(<ir_version: 8, opset_import: ["" : 17, "ai.attune" : 1]>
    g (float[B,T,8] x, bool[B,2,T,T] seen) => (float[B,T,8] y)
    { y = ai.attune.Attention <num_heads = 2> (x, , , , , , , , , seen) })");
  EXPECT_THAT(c.report.notes, testing::IsEmpty());
}

// Causality is no part of the mask: what stays is a bias.
TEST(ExplainMasks, NotBiasesBesideCausality) { EXPECT_THAT(notes(", causal = 1"), testing::IsEmpty()); }

}  // namespace
}  // namespace attune
