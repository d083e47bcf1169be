// A scaled dot-product attention of which one edge of the pattern was spoiled: the report says which, and why.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/explained.h"

namespace attune {
namespace {

using test::Converted;
using test::Spoiled;
using test::SpoiledAttention;
using testing::HasSubstr;

TEST(ExplainAttention, TheUnspoiledAttentionFuses) {
  const Converted c{SpoiledAttention()};
  ASSERT_EQ(c.attentions, 1U);
  EXPECT_THAT(c.report.near_misses, testing::IsEmpty());
  EXPECT_TRUE(c.attention->input(kAttentionQueryWeight) && c.attention->input(kAttentionKeyWeight) &&
              c.attention->input(kAttentionValueWeight));
  c.expect_same();
}

class ExplainAttentionEdges : public testing::TestWithParam<Spoiled> {};

TEST_P(ExplainAttentionEdges, NamesNodeStepAndReason) { test::expect_explained(GetParam()); }

std::vector<Spoiled> spoiled() {
  using S = SpoiledAttention;
  std::vector<Spoiled> all;
  const auto add = [&](std::string name, const S& attention, std::string path, std::string reason) {
    all.push_back(
        {std::move(name), attention.text(), "fuse_attention", "'softmax'", std::move(path), std::move(reason)});
  };
  add("other_operator_between", S().with("m", "[clip] a = Tanh (s)\n  m = Add (a, mask)"), "Softmax[0].Add[0]",
      "found Tanh");
  add("other_operator_after", S().with("c", "[drop] d = Mul (p, mask)\n  c = MatMul (d, v)"), "MatMul[0]",
      "changed by node 'drop' (Mul)");
  add("wrong_axis", S().with("p", "[softmax] p = Softmax <axis = 2> (m)"), "Softmax", "axis");
  add("keys_not_transposed",
      S().inputs("float[B,2,8,S] kt")
          .with("e", "[scores] e = MatMul (q8, kt)")
          .with("q", "[heads_q] q = Transpose <perm = [0, 2, 1, 3]> (q1)\n  q8 = Concat <axis = 3> (q, q)")
          .with("c", "[context] c0 = MatMul (p, v)\n  c = Neg (c0)")
          .with("s", "[scale] s0 = Div (e, root)\n  s = Abs (s0)"),
      "Add[0]", "found Abs");
  add("scale_not_scalar", S().inputs("float[2,1,1] scales").with("s", "[scale] s = Mul (e, scales)"), "Mul",
      "expected a known scalar");
  add("scale_unknown", S().inputs("float scale").with("s", "[scale] s = Mul (e, scale)"), "Mul",
      "expected a known scalar, found an input of the graph");
  add("scale_negative", S().with("s", "[minus] r = Neg (root)\n  s = Div (e, r)"), "scaling", "negative");
  // (5) one step may be given beside the context, not two
  add("two_steps_used", S().outputs("float[B,2,T,S] s, float[B,2,T,S] p"), "softmax",
      "two steps of it are also used outside of the attention");
  add("second_consumer",
      S().with("m", "[masked] m0 = Add (s, mask)\n  [other] z2 = Sqrt (m0)\n  m = Add (m0, mask)")
          .outputs("float[B,2,T,S] z2"),
      "softmax", "a step of it is also used outside of the attention");
  add("mask_after_softmax", S().with("m", "").with("p", "[softmax] p0 = Softmax <axis = -1> (s)\n  p = Add (p0, mask)"),
      "MatMul[0]", "(Add) between softmax and the product");
  add("mask_multiplied", S().with("s", "").with("m", "[masked] m = Mul (e, mask)"), "Mul", "expected a known scalar");
  add("mask_larger_than_scores",
      S().inputs("float[A,B,2,T,S] big")
          .with("m", "[masked] m = Add (s, big)")
          .with("t",
                "[back] c1 = ReduceMax <axes = [0], keepdims = 0> (c)\n  t = Transpose <perm = [0, 2, 1, 3]> (c1)"),
      "mask", "does not broadcast to the scores");
  add("filler_too_large", S().inputs("bool[B,1,1,S] seen, float low").with("m", "[masked] m = Where (seen, s, low)"),
      "filler", "is not a constant");
  const auto heads = [&](std::string name, const S& attention, std::string path, std::string reason) {
    all.push_back(
        {std::move(name), attention.text(), "fuse_attention_heads", "Attention", std::move(path), std::move(reason)});
  };
  // (9) the number of heads can't be found
  const std::string split =
      "h = Shape (like)\n  zeros = Constant <value = int64[2] {0, 0}> ()\n  split = Concat <axis = 0> (zeros, h)\n  "
      "[split_q] q1 "
      "= Reshape (q0, split)";
  heads("heads_not_constant",
        S().inputs("float[H,E] like")
            .with("q1", split)
            .with("k1", "[split_k] k1 = Reshape (k0, split)")
            .with("v1", "[split_v] v1 = Reshape (v0, split)"),
        "split", "heads");
  all.back().runs = false;
  heads("context_used_twice",
        S().with("t", "[back] t = Transpose <perm = [0, 2, 1, 3]> (c)\n  [other] c2 = Neg (c)")
            .outputs("float[B,2,T,4] c2"),
        "", "");
  heads("wrong_permutation",
        S().with("q", "[heads_q] q = Transpose <perm = [0, 3, 1, 2]> (q1)")
            .with("k", "[heads_k] k = Transpose <perm = [0, 3, 2, 1]> (k1)")
            .with("v", "[heads_v] v = Transpose <perm = [0, 3, 1, 2]> (v1)")
            .with("t", "[back] t = Transpose <perm = [0, 2, 3, 1]> (c)"),
        "query split", "does not bring heads in front of positions");
  heads("wrong_permutation_back",
        S().with("t", "[back] t = Transpose <perm = [0, 3, 1, 2]> (c)")
            .with("y",
                  "[merge] y0 = Reshape (t, merged)\n  y1 = Transpose <perm = [0, 2, 1]> (y0)\n  y2 = Transpose <perm "
                  "= [0, 2, 1]> (y1)\n  y = Neg (y2)"),
        "heads last", "does not bring positions in front of heads");
  return all;
}

INSTANTIATE_TEST_SUITE_P(Edges, ExplainAttentionEdges, testing::ValuesIn(spoiled()), test::spoiled_name);

}  // namespace
}  // namespace attune
