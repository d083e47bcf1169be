// Each edge of the pattern, spoiled in each kind of attention: grouped heads, packed projections, projections of
// integers, Luong's general attention, bodies of Loop and If. (Plain and additive attention have more cases of their
// own.)
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/explained.h"

namespace attune {
namespace {

using test::Converted;
using test::Spoiled;
using test::SpoiledAttention;

using S = SpoiledAttention;

class ExplainKinds : public testing::TestWithParam<Spoiled> {};

TEST_P(ExplainKinds, NamesNodeStepAndReason) { test::expect_explained(GetParam()); }

struct Kind {
  std::string name;
  S attention;
  std::string (S::*text)() const = &S::text;
};

std::vector<Kind> kinds_of_heads() {
  return {{"grouped", S::grouped()},
          {"packed", S::packed()},
          {"quantized", S::quantized()},
          {"loop", S(), &S::text_in_loop},
          {"branch", S(), &S::text_in_branch}};
}

TEST(ExplainKinds, UnspoiledTheyFuse) {
  std::vector<Kind> kinds = kinds_of_heads();
  kinds.push_back({"general", S::general()});
  for (const Kind& kind : kinds) {
    SCOPED_TRACE(kind.name);
    const Converted c((kind.attention.*kind.text)());
    EXPECT_EQ(c.attentions, 1U);
    EXPECT_THAT(c.report.near_misses, testing::IsEmpty());
    c.expect_same();
  }
}

std::vector<Spoiled> spoiled_heads() {
  std::vector<Spoiled> all;
  for (const Kind& kind : kinds_of_heads()) {
    const auto add = [&](const std::string& name, const S& a, std::string rule, std::string anchor, std::string path,
                         std::string reason) {
      all.push_back({kind.name + "_" + name, (a.*kind.text)(), std::move(rule), std::move(anchor), std::move(path),
                     std::move(reason)});
    };
    const auto score = [&](const std::string& name, const S& a, std::string path, std::string reason) {
      add(name, a, "fuse_attention", "'softmax'", std::move(path), std::move(reason));
    };
    const auto a = [&] { return kind.attention; };
    score("other_operator", a().with("s", "[spoil] s0 = Abs (e)\n  [scale] s = Div (s0, root)"),
          "Softmax[0].Add[0].Div[0]", "found Abs");
    score("wrong_axis", a().with("p", "[softmax] p = Softmax <axis = 2> (m)"), "Softmax",
          "expected Softmax with axis -1, found -2");
    score("mask_after_softmax",
          a().with("m", "").with("p", "[softmax] p0 = Softmax <axis = -1> (s)\n  [spoil] p = Mul (p0, mask)"),
          "MatMul[0]", "changed by node 'spoil' (Mul)");
    score("scale_not_scalar", a().inputs("float[B,1,1,1] scale").with("s", "[scale] s = Mul (e, scale)"), "Mul[1]",
          "expected a known scalar, found an input of the graph");
    add("other_function", a().with("p", "[hard] p = Hardmax <axis = -1> (m)"), "fuse_attention", "'context'", "MatMul",
        "multiplies the values with the weights of node 'hard' (Hardmax)");
    add("no_softmax", a().with("p", "").with("c", "[context] c = MatMul (m, v)"), "fuse_attention", "'context'",
        "MatMul", "multiplies the values with the scores of node 'scores' (MatMul)");
    add("wrong_permutation", a().with("t", "[back] t = Transpose <perm = [0, 2, 3, 1]> (c)"), "fuse_attention_heads",
        "Attention", "heads last", "the transpose (0,2,3,1) does not bring positions in front of heads");
    add("other_operator_on_heads",
        a().with("q", "[heads_q] h = Transpose <perm = [0, 2, 1, 3]> (q1)\n  [spoil] q = Abs (h)"),
        "fuse_attention_heads", "Attention", "Attention[0].Transpose", "expected Transpose, found Abs");
    add("heads_not_of_the_last_axis",
        a().with("q1", kind.name == "grouped" ? "order = Constant <value = int64[4] {0, 4, -1, 2}> ()\n  "
                                                "[split_q] q1 = Reshape (q0, order)"
                                              : "order = Constant <value = int64[4] {0, 2, -1, 4}> ()\n  "
                                                "[split_q] q1 = Reshape (q0, order)")
            .with("q", "[heads_q] q = Identity (q1)"),
        "fuse_attention_heads", "Attention", "Attention[0].Transpose", "expected Transpose, found Reshape");
    if (kind.text != &S::text) continue;  // a body has one output
    score("second_consumer",
          a().outputs("float[B,H,T,S] z2")
              .with("m", "[masked] m0 = Add (s, mask)\n  [other] z2 = Sqrt (m0)\n  m = Add (m0, mask)"),
          "softmax", "also used outside of the attention: 'm0' by node 'other' (Sqrt)");
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Heads, ExplainKinds, testing::ValuesIn(spoiled_heads()), test::spoiled_name);

// Projections that stay outside. (Those of integers do so anyway.)
std::vector<Spoiled> spoiled_projections() {
  std::vector<Spoiled> all;
  const auto add = [&](std::string name, const std::string& text, std::string path, std::string reason) {
    all.push_back({std::move(name), text, "fuse_qkv_projection", "Attention", std::move(path), std::move(reason)});
  };
  const std::string scale = "scale = Constant <value = float[8] {1, 2, 3, 4, 5, 6, 7, 8}> ()\n  ";
  const std::string spoil = scale + "[spoil] qs = Mul (q0, scale)\n  [split_q] q1 = Reshape (qs, heads)";
  for (const Kind& kind : kinds_of_heads())
    if (kind.name != "quantized" && kind.name != "packed")
      add(kind.name + "_scale_of_each_width", (S(kind.attention).with("q1", spoil).*kind.text)(), "Attention[0]",
          "expected Add or MatMul, found Mul");
  add("output", S().outputs("float[B,S,8] v0").text(), "Attention[2].MatMul", "is an output of the graph");
  add("second_consumer",
      S().outputs("float[B,S,8] z2").with("k1", "[other] z2 = Neg (k0)\n  [split_k] k1 = Reshape (k0, heads)").text(),
      "Attention[1].MatMul", "is also used outside of the match, by node 'other' (Neg)");
  return all;
}

INSTANTIATE_TEST_SUITE_P(Projections, ExplainKinds, testing::ValuesIn(spoiled_projections()), test::spoiled_name);

std::vector<Spoiled> spoiled_general() {
  std::vector<Spoiled> all;
  const auto add = [&](std::string name, const S& a, std::string path, std::string reason) {
    all.push_back({std::move(name), a.text(), "fuse_attention", "'softmax'", std::move(path), std::move(reason)});
  };
  const auto a = [] { return S::general(); };
  add("general_other_operator", a().with("s", "[squeeze] s0 = Squeeze (e, one)\n  [spoil] s = Abs (s0)"),
      "Softmax[0].Where[1]", "found Abs");
  add("general_wrong_axis", a().with("p", "[softmax] p = Softmax <axis = 0> (m)"), "Softmax",
      "expected Softmax with axis -1, found -2");
  add("general_mask_after_softmax",
      a().inputs("float[B,S] mask").with("p", "[softmax] p0 = Softmax <axis = -1> (m)\n  [spoil] p = Mul (p0, mask)"),
      "Unsqueeze[0]", "changed by node 'spoil' (Mul)");
  add("general_scale_not_scalar",
      a().inputs("float[B,1] scale").with("m", "[spoil] s2 = Mul (s, scale)\n  [masked] m = Where (seen, s2, low)"),
      "Mul[1]", "expected a known scalar, found an input of the graph");
  add("general_second_consumer",
      a().outputs("float[B,S] z2").with("m", "[masked] m = Where (seen, s, low)\n  [other] z2 = Neg (m)"), "softmax",
      "also used outside of the attention: 'm' by node 'other' (Neg)");
  add("general_weights_as_column",
      a().with("r", "last = Constant <value = int64[1] {2}> ()\n  [weights] r = Unsqueeze (p, last)")
          .with("c", "c0 = Mul (r, z)\n  [context] c = ReduceMax <axes = [1]> (c0)"),
      "Softmax", "its result reaches no MatMul that the rule could end with");
  all.push_back({"general_other_function", a().with("p", "[hard] p = LogSoftmax <axis = -1> (m)").text(),
                 "fuse_attention", "'context'", "MatMul", "the weights of node 'hard' (LogSoftmax)"});
  all.push_back({"general_operator_on_keys",
                 a().with("kt", "[spoil] k2 = Abs (k)\n  [turn_k] kt = Transpose <perm = [0, 2, 1]> (k2)").text(),
                 "fuse_qkv_projection", "Attention", "Attention[1]", "expected Add or MatMul, found Abs"});
  all.push_back({"general_keys_used", a().outputs("float[B,S,8] k").text(), "fuse_qkv_projection", "Attention",
                 "Attention[1].MatMul", "is an output of the graph"});
  return all;
}

INSTANTIATE_TEST_SUITE_P(General, ExplainKinds, testing::ValuesIn(spoiled_general()), test::spoiled_name);

}  // namespace
}  // namespace attune
