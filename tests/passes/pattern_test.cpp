#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "passes/pattern/match.h"
#include "passes/pattern/rule.h"

namespace attune::pattern {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// q k^T scaled, masked, through a softmax, times v; the tests vary one step at a time.
struct Scores {
  Model model;
  Graph& g = *model.graph;
  Value *q, *k, *v, *mask;

  Scores() {
    model.opset_imports[""] = 17;
    const auto input = [&](const char* name) {
      return g.add_input(name, ValueType::of(DataType::kFloat, Dims{2, 4, 8, 16}));
    };
    q = input("q");
    k = input("k");
    v = input("v");
    mask = g.add_input("mask", ValueType::of(DataType::kFloat, Dims{2, 1, 8, 8}));
  }
  Value* op(const char* type, std::vector<Value*> inputs, Attributes attributes = {}) {
    return g.add_node("", type, std::move(inputs), 1, std::move(attributes))->output();
  }
  Value* scalar(float value) { return g.add_constant(Tensor::scalar(value)); }
  Value* product(Value* right_factor) {
    return op("MatMul", {q, op("Transpose", {right_factor}, {{"perm", std::vector<int64_t>{0, 1, 3, 2}}})});
  }
  Value* finish(Value* scores, int64_t axis = -1) {
    Value* out = op("MatMul", {op("Softmax", {scores}, {{"axis", axis}}), v});
    out->set_name("out");
    g.add_output(out);
    return out;
  }
};

Pat attention_pattern() {
  Pat q = any("q"), k = any("k"), v = any("v"), scale = scalar("scale"), mask = any("mask");
  Pat scores = Op("MatMul", "scores")(q, Op("Transpose").attr("perm", {0, 1, 3, 2})(k));
  Pat scaled = one_of("scaling", {Op("Mul")(scores, scale), Op("Div")(scores, scale), scores});
  Pat masked = one_of("masking", {Op("Add")(scaled, mask), scaled});
  return Op("MatMul")(Op("Softmax", "softmax").axis(-1)(masked), v);
}

struct Tried {
  std::optional<Match> match;
  Miss miss;
};

Tried attempt(const Pat& pattern, Scores& s, Value* root) {
  const Inference inference(s.model);
  Tried t;
  t.match = match(pattern, root, inference, &t.miss);
  return t;
}

TEST(Pattern, CapturesOperandsAndChoices) {
  Scores s;
  Value* root = s.finish(s.op("Add", {s.op("Div", {s.product(s.k), s.scalar(8)}), s.mask}));
  const Inference inference(s.model);
  const auto m = match(attention_pattern(), root, inference);
  ASSERT_TRUE(m);
  EXPECT_EQ((*m)["q"], s.q);
  EXPECT_EQ((*m)["mask"], s.mask);
  EXPECT_EQ(m->choice("scaling"), 1U);
  EXPECT_EQ(m->choice("masking"), 0U);
  EXPECT_EQ(m->number("scale"), 8.0);
  EXPECT_EQ(m->node("softmax")->type(), "Softmax");
  EXPECT_EQ(m->nodes().size(), 6U);
}

TEST(Pattern, TriesCommutativeOperandsInBothOrdersWithBacktracking) {
  Scores s;
  Value* root = s.finish(s.op("Add", {s.mask, s.op("Mul", {s.scalar(0.25F), s.product(s.k)})}));
  const auto t = attempt(attention_pattern(), s, root);
  ASSERT_TRUE(t.match);
  EXPECT_EQ((*t.match)["mask"], s.mask);
}

TEST(Pattern, LeavesOptionalPartsOut) {
  Scores s;
  const auto t = attempt(attention_pattern(), s, s.finish(s.product(s.k)));
  ASSERT_TRUE(t.match);
  EXPECT_EQ((*t.match)["mask"], nullptr);
  EXPECT_EQ(t.match->choice("scaling"), 2U);
}

TEST(Pattern, CountsAxesFromTheEnd) {
  Scores s;
  EXPECT_TRUE(attempt(attention_pattern(), s, s.finish(s.product(s.k), 3)).match);
}

TEST(Pattern, NamesTheAttributeThatDiffers) {
  Scores s;
  const auto t = attempt(attention_pattern(), s, s.finish(s.product(s.k), 1));
  ASSERT_FALSE(t.match);
  EXPECT_EQ(t.miss.path, "MatMul[0].Softmax");
  EXPECT_EQ(t.miss.reason(), "expected Softmax with axis -1, found -3");
}

TEST(Pattern, NamesWhatIsThereInstead) {
  Scores s;
  const auto t = attempt(attention_pattern(), s, s.finish(s.op("Clip", {s.product(s.k)})));
  ASSERT_FALSE(t.match);
  EXPECT_EQ(t.miss.path, "MatMul[0].Softmax[0].Add");
  EXPECT_EQ(t.miss.reason(), "expected Add, Mul, Div or MatMul, found Clip");
}

TEST(Pattern, RefusesAnInteriorValueThatIsUsedOutside) {
  Scores s;
  Value* scores = s.product(s.k);
  Value* root = s.finish(scores);
  s.g.add_output(s.op("Relu", {scores}));
  const auto t = attempt(attention_pattern(), s, root);
  ASSERT_FALSE(t.match);
  EXPECT_EQ(t.miss.value, scores);
  EXPECT_THAT(t.miss.reason(), HasSubstr("is also used outside of the match, by"));
}

TEST(Pattern, RefusesAnInteriorGraphOutput) {
  Scores s;
  Value* scores = s.product(s.k);
  Value* root = s.finish(scores);
  s.g.add_output(scores);
  EXPECT_EQ(attempt(attention_pattern(), s, root).miss.reason(), "is an output of the graph");
}

TEST(Pattern, KeepsSharedNodesForOthersButNotWhatTheyRead) {
  Scores s;
  const auto pattern = [](bool inner_shared) {
    Op inner("Sqrt");
    Pat x = inner_shared ? std::move(inner).shared()(any("x")) : std::move(inner)(any("x"));
    return Op("Exp")(Op("Abs").shared()(x));
  };
  Value* abs = s.op("Abs", {s.op("Sqrt", {s.q})});
  Value* root = s.op("Exp", {abs});
  s.g.add_output(root);
  EXPECT_TRUE(attempt(pattern(false), s, root).match);
  s.g.add_output(s.op("Relu", {abs}));
  EXPECT_FALSE(attempt(pattern(false), s, root).match) << "Sqrt would be computed twice";
  EXPECT_TRUE(attempt(pattern(true), s, root).match);
}

TEST(Pattern, TheSamePatIsTheSameValue) {
  Scores s;
  Pat x = any("x");
  const Pat square = Op("Mul")(x, x);
  EXPECT_TRUE(attempt(square, s, s.op("Mul", {s.q, s.q})).match);
  const auto t = attempt(square, s, s.op("Mul", {s.q, s.k}));
  EXPECT_FALSE(t.match);
  EXPECT_EQ(t.miss.reason(), "expected the same value as 'x' elsewhere, found another");
}

TEST(Pattern, ConstantsMatchByValueWithinTolerance) {
  Scores s;
  const Pat half = Op("Mul")(any("x"), constant(0.5, 1e-3));
  EXPECT_TRUE(attempt(half, s, s.op("Mul", {s.q, s.scalar(0.5004F)})).match);
  EXPECT_TRUE(
      attempt(half, s, s.op("Mul", {s.q, s.g.add_constant(Tensor::from<float>({2, 1, 1, 1}, {0.5F, 0.5F}))})).match);
  EXPECT_EQ(attempt(half, s, s.op("Mul", {s.q, s.scalar(0.6F)})).miss.reason(),
            "expected constant 0.5, found a constant");
  EXPECT_FALSE(attempt(half, s, s.op("Mul", {s.q, s.k})).match);
}

TEST(Pattern, InputsThatTheRuleDoesNotKnowAreAMiss) {
  Scores s;
  const Pat clip = Op("Clip")(any("x"), any("low"));
  EXPECT_EQ(attempt(clip, s, s.op("Clip", {s.q, s.scalar(0), s.scalar(6)})).miss.reason(),
            "expected Clip with 2 inputs, found 3");
  EXPECT_TRUE(attempt(Op("Clip").further_inputs()(any("x")), s, s.op("Clip", {s.q, s.scalar(0)})).match);
}

// x * 2 -> x + x, refused for values named by no one: only where the factor is exactly 2.
Rule double_rule() {
  Pat x = any("x"), factor = any("factor");
  return {"fuse_double",
          Op("Mul")(x, factor),
          [](const Match& m, Builder& b) -> Outcome {
            Value* sum = b.op("Add", {m["x"], m["x"]});
            if (m.inference().scalar(m["factor"]) != 2.0) return m.refuse("factor", "is not 2");
            return Outcome(sum).detail("doubled");
          },
          {"Mul"}};
}

TEST(Rules, ReplaceEveryMatchAndExplainWhatIsLeft) {
  Scores s;
  Value* first = s.op("Mul", {s.q, s.scalar(2)});
  Value* second = s.op("Mul", {first, s.scalar(3)});
  s.g.add_output(second);
  const std::vector<Rule> rules = {double_rule()};
  Report report;
  const PassOptions options;
  PassContext context{s.model, report, options};
  EXPECT_EQ(apply_rules(rules, context), 1U);
  s.g.verify();
  EXPECT_EQ(second->producer()->input(0)->producer()->type(), "Add");
  ASSERT_EQ(report.rewrites.size(), 1U);
  EXPECT_THAT(report.rewrites[0].details, ElementsAre("doubled"));
  const auto misses = explain_anchors(rules, s.model);
  ASSERT_EQ(misses.size(), 1U);
  EXPECT_EQ(misses[0].path, "factor");
  EXPECT_EQ(misses[0].reason, "is not 2");
}

TEST(Rules, ARefusalLeavesNothing) {
  Scores s;
  s.g.add_output(s.op("Mul", {s.q, s.scalar(3)}));
  const size_t nodes = s.g.nodes().size();
  const std::vector<Rule> rules = {double_rule()};
  Report report;
  const PassOptions options;
  PassContext context{s.model, report, options};
  EXPECT_EQ(apply_rules(rules, context), 0U);
  EXPECT_EQ(s.g.nodes().size(), nodes);
  EXPECT_EQ(s.q->uses().size(), 1U);
}

TEST(Rules, StopAtTheBoundOnRewrites) {
  Scores s;
  for (int i = 0; i < 3; ++i) s.g.add_output(s.op("Mul", {s.q, s.scalar(2)}));
  const std::vector<Rule> rules = {double_rule()};
  Report report;
  PassOptions options;
  options.max_rewrites = 2;
  PassContext context{s.model, report, options};
  EXPECT_EQ(apply_rules(rules, context), 2U);
  const auto misses = explain_anchors(rules, s.model);
  ASSERT_EQ(misses.size(), 1U);
  EXPECT_THAT(misses[0].reason, HasSubstr("bound on rewrites"));
}

TEST(Rules, ThatMatchWhatTheyGiveEnd) {
  Scores s;
  s.g.add_output(s.op("Add", {s.q, s.k}));
  const std::vector<Rule> rules = {{"swap", Op("Add")(any("left"), any("right")), [](const Match& m, Builder& b) {
                                      return Outcome(b.op("Add", {m["right"], m["left"]}));
                                    }}};
  Report report;
  const PassOptions options;
  PassContext context{s.model, report, options};
  EXPECT_EQ(apply_rules(rules, context), 1000U);
  s.g.verify();
  EXPECT_THAT(report.endless_rules, ElementsAre("swap"));
}

TEST(Rules, GraphOutputsKeepTheirNames) {
  Scores s;
  Value* doubled = s.op("Mul", {s.q, s.scalar(2)});
  doubled->set_name("result");
  s.g.add_output(doubled);
  const std::vector<Rule> rules = {double_rule()};
  Report report;
  const PassOptions options;
  PassContext context{s.model, report, options};
  apply_rules(rules, context);
  EXPECT_EQ(s.g.outputs()[0]->name(), "result");
  EXPECT_EQ(s.g.outputs()[0]->producer()->type(), "Add");
}

}  // namespace
}  // namespace attune::pattern
