// The design's list of public failures of fusion, where it isn't about a reason. Numbers are of that list.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/explained.h"

namespace attune {
namespace {

using test::Converted;
using test::SpoiledAttention;
using testing::HasSubstr;

TEST(KnownFailures, AnInputMaskIsNotTakenForLengths) {  // 1
  SpoiledAttention a;
  a.inputs("int64[B,S] seen")
      .with("m",
            "b = Cast <to = 9> (seen)\n  axes = Constant <value = int64[2] {1, 2}> ()\n"
            "  b4 = Unsqueeze (b, axes)\n  low = Constant <value = float {-1e9}> ()\n"
            "  [masked] m = Where (b4, s, low)");
  const Converted c(a);
  ASSERT_EQ(c.attentions, 1U);
  EXPECT_EQ(c.attention->input(kAttentionKeyLengths), nullptr);
  ASSERT_NE(c.attention->input(kAttentionMask), nullptr);
  EXPECT_EQ(c.attention->input(kAttentionMask)->element_type(), DataType::kBool);
  c.expect_same();  // with right, left and scattered padding
}

TEST(KnownFailures, WeightsThatAreAnOutputStayOne) {  // 4
  const Converted c(SpoiledAttention().outputs("float[B,2,T,S] p"));
  ASSERT_EQ(c.attentions, 1U);
  ASSERT_EQ(c.model.graph->outputs().size(), 2U);
  EXPECT_EQ(c.model.graph->outputs()[1]->name(), "p");
  EXPECT_EQ(c.model.graph->outputs()[1]->producer(), c.attention);
  EXPECT_EQ(c.model.graph->outputs()[1]->output_index(), static_cast<size_t>(kAttentionWeights));
  c.expect_same();
}

TEST(KnownFailures, OptionalInputsBeyondThoseKnownAreRefused) {  // 6
  const Converted c(
      "<ir_version: 8, opset_import: [\"\" : 17, \"com.microsoft\" : 1]> g (float[B,T,8] q, float[B,T,8] k, "
      "float[B,T,8] "
      "v, int32[B,2,T,T] w) => (float[B,T,8] y) { [old] y = com.microsoft.MultiHeadAttention <num_heads = 2> (q, k, v, "
      ", , , "
      ", , , w) }");
  EXPECT_EQ(c.attentions, 0U);
  ASSERT_EQ(c.report.near_misses.size(), 1U);
  EXPECT_THAT(c.report.near_misses[0].anchor, HasSubstr("'old'"));
  EXPECT_FALSE(c.report.near_misses[0].reason.empty());
}

TEST(KnownFailures, FillersThatAreAddedCountAsTheirSum) {  // 7
  SpoiledAttention a;
  a.inputs("int64[B,S] seen, int64[B,S] allowed")
      .with("m",
            "axes = Constant <value = int64[2] {1, 2}> ()\n  one = Constant <value = float {1}> ()\n"
            "  low = Constant <value = float {-10000}> ()\n"
            "  a1 = Cast <to = 1> (seen)\n  a2 = Sub (one, a1)\n  a3 = Mul (a2, low)\n  a4 = Unsqueeze (a3, axes)\n"
            "  b1 = Cast <to = 1> (allowed)\n  b2 = Sub (one, b1)\n  b3 = Mul (b2, low)\n  b4 = Unsqueeze (b3, axes)\n"
            "  both = Add (a4, b4)\n  [masked] m = Add (s, both)");
  const Converted c(a);
  ASSERT_EQ(c.attentions, 1U);
  ASSERT_NE(c.attention->input(kAttentionMask), nullptr);
  EXPECT_EQ(c.attention->input(kAttentionMask)->element_type(), DataType::kFloat);
  EXPECT_THAT(c.report.notes, testing::Contains(HasSubstr("its mask stays a float mask")));
  c.expect_same();
}

TEST(KnownFailures, TheLowestNumberOfFloat16ExcludesInFloat16) {  // 8
  const Converted c(
      "<ir_version: 8, opset_import: [\"\" : 17]> g (float16[B,2,T,4] q, float16[B,2,4,S] k, float16[B,2,S,4] v, "
      "bool[B,1,1,S] seen) => (float16[B,2,T,4] y) <float low32 = {-65504}> { low = Cast <to = 10> (low32) e = MatMul "
      "(q, k) m = Where (seen, e, "
      "low) "
      "p = Softmax (m) y = MatMul (p, v) }");
  ASSERT_EQ(c.attentions, 1U);
  EXPECT_EQ(c.attention->input(kAttentionMask)->element_type(), DataType::kBool);
  EXPECT_EQ(c.attention->attr_string("empty_row", "zero"), "mean");
  c.expect_same();
}

TEST(KnownFailures, TypesAreThereForTheNextTool) {  // 10
  const Converted c{SpoiledAttention()};
  c.model.graph->for_each_node([](const Node& n) {
    for (size_t i = 0; i < n.output_count(); ++i)
      if (n.output(i)) {
        EXPECT_TRUE(n.output(i)->tensor_type().has_rank()) << n.label();
      }
  });
  EXPECT_EQ(c.model.graph->outputs()[0]->type().to_string(), "float(B,T,8)");
}

TEST(KnownFailures, ASizeThatBecomesFixedIsNoted) {  // 12
  SpoiledAttention a;
  a.outputs("float[C,D,E] fixed")
      .with("y",
            "[merge] y = Reshape (t, merged)\n  some = Constant <value = int64[3] {2, 2, 2}> ()\n"
            "  [fixes] fixed = ConstantOfShape (some)");
  const Converted c(a);
  EXPECT_THAT(c.report.notes, testing::Contains("output 'fixed': dimension 0 was 'C', is 2"));
}

TEST(KnownFailures, SharedWeightsAreNotCopied) {  // 13
  SpoiledAttention a;
  a.with("wk", "")
      .with("wv", "")
      .with("k0", "[project_k] k0 = MatMul (z, wq)")
      .with("v0", "[project_v] v0 = MatMul (z, wq)");
  const Converted c(a);
  ASSERT_EQ(c.attentions, 1U);
  EXPECT_EQ(c.attention->input(kAttentionQueryWeight), c.attention->input(kAttentionKeyWeight));
  EXPECT_EQ(c.attention->input(kAttentionValueWeight), c.attention->input(kAttentionKeyWeight));
  size_t weights = 0;
  for (const auto& constant : c.model.graph->constants()) weights += constant->tensor_type().rank() == 2 ? 1 : 0;
  EXPECT_EQ(weights, 1U);
}

}  // namespace
}  // namespace attune
