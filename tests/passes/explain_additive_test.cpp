// An additive attention, as recurrent decoders have it, of which one edge was spoiled.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/explained.h"

namespace attune {
namespace {

using test::Spoiled;
using test::SpoiledAttention;

class ExplainAdditive : public testing::TestWithParam<Spoiled> {};

TEST_P(ExplainAdditive, NamesNodeStepAndReason) { test::expect_explained(GetParam()); }

// Additive scores, as recurrent decoders have them.
std::vector<Spoiled> spoiled_additive() {
  using S = SpoiledAttention;
  std::vector<Spoiled> all;
  const auto add = [&](std::string name, const S& attention, std::string path, std::string reason) {
    all.push_back({std::move(name), attention.text(), "fuse_additive_attention", "'softmax'", std::move(path),
                   std::move(reason)});
  };
  const auto a = [] { return S::additive(); };
  add("other_function", a().with("h", "[tanh] h = Sigmoid (e)"), "Tanh", "expected Tanh, found Sigmoid");
  add("other_operator_between", a().with("s", "[squeeze] s1 = Squeeze (s0, two)\n  s = Abs (s1)"),
      "Softmax[0].Where[1].Add", "found Abs");
  add("operator_after_the_softmax", a().with("r", "p2 = Mul (p, p)\n  [weights] r = Unsqueeze (p2, one)"),
      "Unsqueeze[0].Cast", "the weights are changed by node of 'p2' (Mul)");
  add("wrong_axis", a().with("p", "[softmax] p = Softmax <axis = 0> (m)"), "Softmax",
      "expected Softmax with axis -1, found -2");
  add("product_instead_of_sum", a().with("e", "[sum] e = Mul (q, k)"), "Tanh[0].Add", "expected Add, found Mul");
  add("no_row", a().inputs("float[B,S,8] other").with("e", "[sum] e = Add (other, k)"), "sum",
      "float(B,S,8) and float(B,S,8) are not a query and keys that are added to each other");
  add("weight_computed", a().inputs("float[8,1] v").with("s0", "[scores] s0 = MatMul (h, v)"), "score weight",
      "float(8,1) is not a constant column");
  add("scale_not_scalar",
      a().inputs("float[B,1] scale").with("m", "s2 = Mul (s, scale)\n  [masked] m = Where (seen, s2, low)"),
      "Softmax[0].Where[1].Mul[1].scalar 'factor'", "expected a known scalar, found an input of the graph");
  add("two_steps_used", a().outputs("float[B,S] m, float[B,S] p"), "softmax",
      "a step of it is also used outside of the attention");
  add("second_consumer", a().with("m", "[masked] m = Where (seen, s, low)\n  z2 = Abs (h)").outputs("float[B,S,8] z2"),
      "Tanh", "is also used outside of the match, by node of 'z2' (Abs)");
  add("mask_after_softmax",
      a().inputs("float[B,S] mask")
          .with("m", "")
          .with("p", "[softmax] p0 = Softmax <axis = -1> (s)\n  p = Mul (p0, mask)"),
      "Unsqueeze[0].Cast", "the weights are changed by node of 'p' (Mul)");
  add("mask_multiplied", a().inputs("float[B,S] mask").with("m", "[masked] m = Mul (s, mask)"),
      "Softmax[0].Mul[1].scalar 'factor'", "expected a known scalar, found an input of the graph");
  add("mask_of_other_shape",
      a().inputs("bool[A,B,S] far")
          .with("m", "[masked] m = Where (far, s, low)")
          .with("p", "[softmax] p0 = Softmax <axis = -1> (m)\n p = ReduceMax <axes = [0], keepdims = 0> (p0)"),
      "Unsqueeze[0].Cast", "found ReduceMax");
  add("filler_unknown", a().inputs("float filler").with("m", "[masked] m = Where (seen, s, filler)"), "mask filler",
      "is not a constant");
  return all;
}

INSTANTIATE_TEST_SUITE_P(Edges, ExplainAdditive, testing::ValuesIn(spoiled_additive()), test::spoiled_name);

}  // namespace
}  // namespace attune
