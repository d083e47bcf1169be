// One attention spoiled on purpose: the report names the node, the step of the pattern, and the reason. The numbers are
// those of the design's list of public failures of fusion.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "convert/verify.h"
#include "graph/io/text.h"
#include "passes/attention_node.h"
#include "passes/pass.h"
#include "tests/support/spoiled_attention.h"

namespace attune {
namespace {

using test::SpoiledAttention;
using testing::HasSubstr;

struct Converted {
  explicit Converted(const SpoiledAttention& attention) : Converted(attention.text()) {}
  explicit Converted(const std::string& text) : source(parse_model(text)), model(parse_model(text)) {
    optimize(model, report);
    model.graph->verify();
    model.graph->for_each_node([&](const Node& n) {
      if (!is_attention(&n)) return;
      attention = &n;
      ++attentions;
    });
  }
  // Computes what the source computes.
  void expect_same() const {
    const Verification v = verify(source, model);
    EXPECT_TRUE(v.passed()) << v.largest_relative;
  }

  Model source, model;
  Report report;
  const Node* attention = nullptr;
  size_t attentions = 0;
};

TEST(Explain, TheUnspoiledAttentionFuses) {
  const Converted c{SpoiledAttention()};
  ASSERT_EQ(c.attentions, 1U);
  EXPECT_THAT(c.report.near_misses, testing::IsEmpty());
  EXPECT_TRUE(c.attention->input(kAttentionQueryWeight) && c.attention->input(kAttentionKeyWeight) &&
              c.attention->input(kAttentionValueWeight));
  c.expect_same();
}

// --- what doesn't fuse says why

struct Spoiled {
  std::string name;
  SpoiledAttention attention;
  std::string rule, anchor, path, reason;
  bool runs = true;  // on made-up inputs
};

std::ostream& operator<<(std::ostream& out, const Spoiled& s) { return out << s.name; }

class ExplainSpoiled : public testing::TestWithParam<Spoiled> {};

TEST_P(ExplainSpoiled, NamesNodeStepAndReason) {
  const Spoiled& s = GetParam();
  const Converted c(s.attention);
  std::string all;
  for (const NearMiss& m : c.report.near_misses)
    all += m.rule + ": " + m.anchor + ": " + m.path + ": " + m.value + ": " + m.reason + "\n";
  ASSERT_EQ(c.report.near_misses.size(), 1U) << all;
  SCOPED_TRACE(all);
  const NearMiss& miss = c.report.near_misses[0];
  EXPECT_EQ(miss.rule, s.rule);
  EXPECT_THAT(miss.anchor, HasSubstr(s.anchor));
  EXPECT_THAT(miss.path, HasSubstr(s.path));
  EXPECT_THAT(miss.reason, HasSubstr(s.reason));
  // All or nothing (3): no part of the attention was rewritten alone.
  if (s.rule == "fuse_attention") {
    EXPECT_EQ(c.attentions, 0U);
  }
  if (s.runs) c.expect_same();
}

std::vector<Spoiled> spoiled() {
  using S = SpoiledAttention;
  std::vector<Spoiled> all;
  const auto add = [&](std::string name, S attention, std::string path, std::string reason) {
    all.push_back(
        {std::move(name), std::move(attention), "fuse_attention", "'softmax'", std::move(path), std::move(reason)});
  };
  add("other_operator_between", S().with("m", "[clip] a = Tanh (s)\n  m = Add (a, mask)"), "Softmax[0].Add[0]",
      "found Tanh");
  add("other_operator_after", S().with("c", "[drop] d = Mul (p, mask)\n  c = MatMul (d, v)"), "MatMul[0]", "found Mul");
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
      "scores and weights are also used outside of the attention");
  add("second_consumer",
      S().with("m", "[masked] m0 = Add (s, mask)\n  [other] z2 = Sqrt (m0)\n  m = Add (m0, mask)")
          .outputs("float[B,2,T,S] z2"),
      "softmax", "a step of it is also used outside of the attention");
  add("mask_after_softmax", S().with("m", "").with("p", "[softmax] p0 = Softmax <axis = -1> (s)\n  p = Add (p0, mask)"),
      "MatMul[0]", "found Add");
  add("mask_multiplied", S().with("s", "").with("m", "[masked] m = Mul (e, mask)"), "Mul", "expected a known scalar");
  add("mask_larger_than_scores",
      S().inputs("float[A,B,2,T,S] big")
          .with("m", "[masked] m = Add (s, big)")
          .with("t",
                "[back] c1 = ReduceMax <axes = [0], keepdims = 0> (c)\n  t = Transpose <perm = [0, 2, 1, 3]> (c1)"),
      "mask", "does not broadcast to the scores");
  add("filler_too_large", S().inputs("bool[B,1,1,S] seen, float low").with("m", "[masked] m = Where (seen, s, low)"),
      "filler", "is not a constant");
  const auto heads = [&](std::string name, S attention, std::string path, std::string reason) {
    all.push_back({std::move(name), std::move(attention), "fuse_attention_heads", "Attention", std::move(path),
                   std::move(reason)});
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

INSTANTIATE_TEST_SUITE_P(Edges, ExplainSpoiled, testing::ValuesIn(spoiled()),
                         [](const auto& info) { return info.param.name; });

// Additive scores, as recurrent decoders have them.
std::vector<Spoiled> spoiled_additive() {
  using S = SpoiledAttention;
  std::vector<Spoiled> all;
  const auto add = [&](std::string name, S attention, std::string path, std::string reason) {
    all.push_back({std::move(name), std::move(attention), "fuse_additive_attention", "'softmax'", std::move(path),
                   std::move(reason)});
  };
  const auto a = [] { return S::additive(); };
  add("other_function", a().with("h", "[tanh] h = Sigmoid (e)"), "Tanh", "expected Tanh, found Sigmoid");
  add("other_operator_between", a().with("s", "[squeeze] s1 = Squeeze (s0, two)\n  s = Abs (s1)"),
      "Softmax[0].Where[1].Add", "found Abs");
  add("operator_after_the_softmax", a().with("r", "p2 = Mul (p, p)\n  [weights] r = Unsqueeze (p2, one)"),
      "Unsqueeze[0].Cast", "found Mul");
  add("wrong_axis", a().with("p", "[softmax] p = Softmax <axis = 0> (m)"), "Softmax",
      "expected Softmax with axis -1, found -2");
  add("product_instead_of_sum", a().with("e", "[sum] e = Mul (q, k)"), "Tanh[0].Add", "expected Add, found Mul");
  add("no_row", a().inputs("float[B,S,8] other").with("e", "[sum] e = Add (other, k)"), "sum",
      "float(B,S,8) and float(B,S,8) are not a query and keys that are added to each other");
  add("weight_computed", a().inputs("float[8,1] v").with("s0", "[scores] s0 = MatMul (h, v)"), "score weight",
      "float(8,1) is not a constant column");
  add("scale_not_scalar",
      a().inputs("float[B,1] scale").with("m", "s2 = Mul (s, scale)\n  [masked] m = Where (seen, s2, low)"),
      "Softmax[0].Where[1].Add", "found Mul");
  add("two_steps_used", a().outputs("float[B,S] m, float[B,S] p"), "softmax",
      "a step of it is also used outside of the attention");
  add("second_consumer", a().with("m", "[masked] m = Where (seen, s, low)\n  z2 = Abs (h)").outputs("float[B,S,8] z2"),
      "Tanh", "is also used outside of the match, by node of 'z2' (Abs)");
  add("mask_after_softmax",
      a().inputs("float[B,S] mask")
          .with("m", "")
          .with("p", "[softmax] p0 = Softmax <axis = -1> (s)\n  p = Mul (p0, mask)"),
      "Unsqueeze[0].Cast", "found Mul");
  add("mask_multiplied", a().inputs("float[B,S] mask").with("m", "[masked] m = Mul (s, mask)"), "Softmax[0]",
      "found Mul");
  add("mask_of_other_shape",
      a().inputs("bool[A,B,S] far")
          .with("m", "[masked] m = Where (far, s, low)")
          .with("p", "[softmax] p0 = Softmax <axis = -1> (m)\n p = ReduceMax <axes = [0], keepdims = 0> (p0)"),
      "Unsqueeze[0].Cast", "found ReduceMax");
  add("filler_unknown", a().inputs("float filler").with("m", "[masked] m = Where (seen, s, filler)"), "mask filler",
      "is not a constant");
  return all;
}

INSTANTIATE_TEST_SUITE_P(AdditiveEdges, ExplainSpoiled, testing::ValuesIn(spoiled_additive()),
                         [](const auto& info) { return info.param.name; });

// Weights that are normalised by hand.
std::vector<Spoiled> spoiled_normalization() {
  using S = SpoiledAttention;
  std::vector<Spoiled> all;
  const auto add = [&](std::string name, S attention, std::string node, std::string reason) {
    all.push_back({std::move(name), std::move(attention), "fuse_attention", "'" + node + "'", "", std::move(reason)});
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
  add("masked_exponentials", weights("x3 = Mul (x2, mask)\n  t0 = ReduceSum (x3, last)\n  [divide] p = Div (x3, t0)"),
      "divide", "exponentials go through");
  add("divided_context",
      S().with("p", exponent + "t0 = ReduceSum (x2, last)")
          .with("c", "[context] c0 = MatMul (x2, v)\n  [divide] c = Div (c0, t0)"),
      "divide", "the product with the values is divided");
  return all;
}

INSTANTIATE_TEST_SUITE_P(NormalizationEdges, ExplainSpoiled, testing::ValuesIn(spoiled_normalization()),
                         [](const auto& info) { return info.param.name; });

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

// --- what exporters vary, and must not matter (2)

class ExplainVaried : public testing::TestWithParam<std::pair<const char*, SpoiledAttention>> {};

TEST_P(ExplainVaried, StillFuses) {
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

INSTANTIATE_TEST_SUITE_P(Exporters, ExplainVaried, testing::ValuesIn(varied()),
                         [](const auto& info) { return std::string(info.param.first); });

// --- the list of public failures, where it isn't about a reason

TEST(Explain, AnInputMaskIsNotTakenForLengths) {  // 1
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

TEST(Explain, WeightsThatAreAnOutputStayOne) {  // 4
  const Converted c(SpoiledAttention().outputs("float[B,2,T,S] p"));
  ASSERT_EQ(c.attentions, 1U);
  ASSERT_EQ(c.model.graph->outputs().size(), 2U);
  EXPECT_EQ(c.model.graph->outputs()[1]->name(), "p");
  EXPECT_EQ(c.model.graph->outputs()[1]->producer(), c.attention);
  EXPECT_EQ(c.model.graph->outputs()[1]->output_index(), static_cast<size_t>(kAttentionWeights));
  c.expect_same();
}

TEST(Explain, OptionalInputsBeyondThoseKnownAreRefused) {  // 6
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

TEST(Explain, FillersThatAreAddedCountAsTheirSum) {  // 7
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

TEST(Explain, TheLowestNumberOfFloat16ExcludesInFloat16) {  // 8
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

TEST(Explain, TypesAreThereForTheNextTool) {  // 10
  const Converted c{SpoiledAttention()};
  c.model.graph->for_each_node([](const Node& n) {
    for (size_t i = 0; i < n.output_count(); ++i)
      if (n.output(i)) {
        EXPECT_TRUE(n.output(i)->tensor_type().has_rank()) << n.label();
      }
  });
  EXPECT_EQ(c.model.graph->outputs()[0]->type().to_string(), "float(B,T,8)");
}

TEST(Explain, ASizeThatBecomesFixedIsNoted) {  // 12
  SpoiledAttention a;
  a.outputs("float[C,D,E] fixed")
      .with("y",
            "[merge] y = Reshape (t, merged)\n  some = Constant <value = int64[3] {2, 2, 2}> ()\n"
            "  [fixes] fixed = ConstantOfShape (some)");
  const Converted c(a);
  EXPECT_THAT(c.report.notes, testing::Contains("output 'fixed': dimension 0 was 'C', is 2"));
}

TEST(Explain, SharedWeightsAreNotCopied) {  // 13
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

// --- bisection

TEST(Explain, MaxRewritesStopsAfterEachRewrite) {
  const std::string text = SpoiledAttention().text();
  const Model source = parse_model(text);
  const size_t all = Converted(text).report.rewrites.size();
  ASSERT_GT(all, 4U);
  for (size_t n = 0; n <= all; ++n) {
    Model model = parse_model(text);
    Report report;
    PassOptions options;
    options.max_rewrites = static_cast<int64_t>(n);
    optimize(model, report, options);
    model.graph->verify();
    EXPECT_EQ(report.rewrites.size(), n);
    EXPECT_TRUE(verify(source, model).passed()) << n;
  }
}

}  // namespace
}  // namespace attune
