#include "runtime/plan.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "graph/io/text.h"
#include "runtime/profile.h"
#include "runtime/session.h"
#include "tests/support/error_matchers.h"

namespace attune {
namespace {

using test::error_of;
using testing::ElementsAre;
using testing::HasSubstr;

Tensor floats(const Shape& shape, std::vector<float> values) { return Tensor::from<float>(shape, values); }

std::vector<float> values(const TensorMap& outputs, const std::string& name) {
  const auto v = outputs.at(name).tensor().values<float>();
  return {v.begin(), v.end()};
}

// Runs a model and counts the calls of each operator.
class Counted {
 public:
  explicit Counted(std::string_view text, const PlanOptions& options = {})
      : session_(Plan::compile(parse_model(text), options), {.threads = 1, .profile = &profile_}) {}
  Session& session() { return session_; }
  size_t calls(const std::string& op) const {
    const auto& e = profile_.events();
    return static_cast<size_t>(std::count_if(e.begin(), e.end(), [&](const ProfileEvent& x) { return x.op == op; }));
  }
  void reset() { profile_.clear(); }

 private:
  Profile profile_;
  Session session_;
};

// Token ids beyond a table are found before anything runs, and named by the input that holds them.
TEST(Plan, IndicesBeyondATable) {
  const char* const kModels[] = {
      "g (int64[a,b] ids) => (float[a,b,2] y) <float[3,2] t = {1,2,3,4,5,6}> { [node] y = Gather(t, ids) }",
      "g (int32[a,b] ids) => (float[a,b,2] y) <float[3,2] t = {1,2,3,4,5,6}> { [node] y = Gather(t, ids) }",
      "g (int32[a,b] ids) => (float[n,2] y) <float[3,2] t = {1,2,3,4,5,6}, int64[1] s = {-1}> {"
      " wide = Cast<to: int = 7>(ids) flat = Reshape(wide, s) [node] y = Gather(t, flat) }",
      "g (int64[a,b] ids) => (float[a,b,2] y) <float16[3,2] h = {1,2,3,4,5,6}> {"
      " t = Cast<to: int = 1>(h) [node] y = Gather(t, ids) }",
      "g (int64[a,b] ids) => (float[a,b,2] z) <float[9,2] l = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9},"
      " float[3,2] t = {1,2,3,4,5,6}> { x = Gather(l, ids) [node] y = Gather(t, ids) z = Add(x, y) }"};
  for (const char* const text : kModels) {
    Session session(Plan::compile(parse_model(std::string(R"(<ir_version: 10, opset_import: ["" : 18]> )") + text)));
    const auto run = [&](const std::vector<int64_t>& ids) {
      Tensor in = Tensor::from<int64_t>({2, 2}, ids);
      if (std::string_view(text).find("int32") != std::string_view::npos)
        in = Tensor::from<int32_t>({2, 2}, std::vector<int32_t>(ids.begin(), ids.end()));
      session.run({{"ids", in}});
    };
    const auto message = [](const char* found) {
      return fmt::format("input 'ids': expected indices below 3, the rows of the table of node 'node' (Gather), got {}",
                         found);
    };
    EXPECT_EQ(error_of([&] { run({0, 1, 2, -3}); }), "no error") << text;
    EXPECT_EQ(error_of([&] { run({0, 1, 3, 2}); }), message("3 at (1,0)")) << text;
    EXPECT_EQ(error_of([&] { run({0, -4, 2, 2}); }), message("-4 at (0,1)")) << text;
    EXPECT_EQ(error_of([&] { run({0, 1, 2, 2}); }), "no error") << text;
  }
}

// What is no index of a table's row, or needn't be read, may be any number.
TEST(Plan, IntegersThatAreNoIndices) {
  const char* const kModels[] = {
      "g (int64[a,b] ids) => (float[a,b,2] y) <float[3,2] t = {1,2,3,4,5,6}, int64 most = {2}> {"
      " small = Min(ids, most) y = Gather(t, small) }",
      "g (int64[a,b] ids) => (int64[a,b] y) <float[3,2] t = {1,2,3,4,5,6}> { unused = Gather(t, ids) y = Neg(ids) }"};
  for (const char* const text : kModels) {
    Session session(Plan::compile(parse_model(std::string(R"(<ir_version: 10, opset_import: ["" : 18]> )") + text)));
    EXPECT_EQ(error_of([&] { session.run({{"ids", Tensor::from<int64_t>({1, 2}, {7, 1})}}); }), "no error") << text;
  }
}

TEST(Plan, ListsAllUnsupportedNodes) {
  const Model model = parse_model(R"(<ir_version: 10, opset_import: ["" : 18, "other" : 1]>
    g (float[n] x, bool c) => (float[n] y) {
      a = other.First(x)
      b = If (c) <then_branch = t () => (float[n] u) { u = other.Second(a) },
                  else_branch = e () => (float[n] v) { v = Relu(a) }>
      y = Relu(b)
    })");
  const std::string error = error_of([&] { Plan::compile(model); });
  EXPECT_THAT(error, HasSubstr("First"));
  EXPECT_THAT(error, HasSubstr("Second"));
  EXPECT_THAT(error, HasSubstr("2 node(s)"));
}

TEST(Plan, GroupsUnsupportedNodesByOperator) {
  std::string nodes = "v0 = other.First(x) ";
  for (int i = 1; i < 9; ++i) nodes += fmt::format("v{} = other.First(v{}) ", i, i - 1);
  const Model model = parse_model(R"(<ir_version: 10, opset_import: ["" : 18, "other" : 1]>
    g (float[n] x) => (float[n] y) { )" +
                                  nodes + "w = other.Second(v8) y = Relu(w) }");
  const std::string error = error_of([&] { Plan::compile(model); });
  EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 2) << error;  // a line for each operator
  EXPECT_THAT(error, HasSubstr("10 node(s)"));
  EXPECT_THAT(error, HasSubstr("9 of other.First: no kernel (opset 1)"));
  EXPECT_THAT(error, HasSubstr("'v0'"));
  EXPECT_THAT(error, HasSubstr("'v2'"));
  EXPECT_THAT(error, testing::Not(HasSubstr("'v3'")));
  EXPECT_THAT(error, HasSubstr("and 6 more"));
  EXPECT_THAT(error, HasSubstr("1 of other.Second"));
}

TEST(Plan, DoesNotNeedKernelsOfDeadNodes) {
  Session session(Plan::compile(parse_model(R"(<ir_version: 10, opset_import: ["" : 18, "other" : 1]>
    g (float[n] x) => (float[n] y) { dead = other.First(x) y = Relu(x) })")));
  EXPECT_THAT(values(session.run({{"x", floats({2}, {-1, 2})}}), "y"), ElementsAre(0, 2));
}

TEST(Plan, InlinesFunctionsOfTheModel) {
  const Model model = parse_model(R"(<ir_version: 10, opset_import: ["" : 18, "local" : 1]>
    g (float[n] x) => (float[n] y) { y = local.Outer(x) }
    <domain: "local", opset_import: ["" : 18, "local" : 1]>
    Outer (x) => (y) { a = local.Inner <value = 3.0> (x) y = local.Inner(a) }
    <domain: "local", opset_import: ["" : 18]>
    Inner <value: float = 2.0> (x) => (y) { c = Constant <value_float: float = @value> () y = Mul(x, c) })");
  Session session(Plan::compile(model));
  EXPECT_THAT(values(session.run({{"x", floats({2}, {1, 2})}}), "y"), ElementsAre(6, 12));
}

TEST(Plan, RefusesFunctionsThatCallThemselves) {
  const Model model = parse_model(R"(<ir_version: 10, opset_import: ["" : 18, "local" : 1]>
    g (float[n] x) => (float[n] y) { y = local.A(x) }
    <domain: "local", opset_import: ["" : 18, "local" : 1]> A (x) => (y) { y = local.B(x) }
    <domain: "local", opset_import: ["" : 18, "local" : 1]> B (x) => (y) { y = local.A(x) })");
  EXPECT_THAT(error_of([&] { Plan::compile(model); }), HasSubstr("calls itself"));
}

TEST(Plan, FoldsConstants) {
  Counted model(R"(<ir_version: 10, opset_import: ["" : 18]>
    g (float[2] x) => (float[2] y) <float[2] a = {1, 2}, float[2] b = {3, 4}> {
      s = Add(a, b) r = Relu(s) y = Mul(x, r) })");
  EXPECT_THAT(values(model.session().run({{"x", floats({2}, {1, 10})}}), "y"), ElementsAre(4, 60));
  EXPECT_EQ(model.calls("Add") + model.calls("Relu"), 0U);
}

TEST(Session, ShapeArithmeticRunsOnlyForNewShapes) {
  Counted model(R"(<ir_version: 10, opset_import: ["" : 18]>
    g (float[b,t] x) => (float[t,b] y) <int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}> {
      shape = Shape(x)
      b = Slice(shape, zero, one)
      t = Slice(shape, one, two)
      target = Concat <axis = 0> (t, b)
      y = Reshape(x, target)
    })");
  const auto run = [&](int64_t b, int64_t t) {
    model.reset();
    const auto out = model.session().run({{"x", floats({b, t}, std::vector<float>(static_cast<size_t>(b * t), 1))}});
    EXPECT_EQ(out.at("y").tensor().shape(), (Shape{t, b}));
  };
  run(2, 3);
  EXPECT_EQ(model.calls("Slice"), 2U);
  run(2, 3);
  EXPECT_EQ(model.calls("Shape") + model.calls("Slice") + model.calls("Concat"), 0U);
  EXPECT_EQ(model.calls("Reshape"), 1U);
  run(2, 4);
  EXPECT_EQ(model.calls("Shape"), 1U);
  EXPECT_EQ(model.calls("Concat"), 1U);
  run(2, 3);
}

TEST(Session, SlicesThatDidNotChangeStopTheRest) {
  Counted model(R"(<ir_version: 10, opset_import: ["" : 18]>
    g (float[b,t] x) => (int64[1] y) <int64[1] zero = {0}, int64[1] one = {1}> {
      shape = Shape(x)
      b = Slice(shape, zero, one)
      y = Neg(b)
    })");
  model.session().run({{"x", floats({1, 2}, {1, 2})}});
  model.reset();
  model.session().run({{"x", floats({1, 3}, {1, 2, 3})}});
  EXPECT_EQ(model.calls("Slice"), 1U);
  EXPECT_EQ(model.calls("Neg"), 0U);
}

constexpr std::string_view kFixed = R"(<ir_version: 10, opset_import: ["" : 18]>
  g (float[n] memory, float[n] x) => (float[n] y) {
    a = Neg(memory) b = Relu(a) c = Abs(x) y = Add(b, c) })";

TEST(Session, WhatDependsOnFixedInputsRunsOnce) {
  PlanOptions options;
  options.fixed_inputs = {"memory"};
  Counted model(kFixed, options);
  Session& session = model.session();
  EXPECT_THAT(error_of([&] { session.run({{"x", floats({1}, {1})}}); }), HasSubstr("memory"));
  session.fix({{"memory", floats({2}, {-1, -2})}});
  for (int i = 0; i < 3; ++i) EXPECT_THAT(values(session.run({{"x", floats({2}, {1, -1})}}), "y"), ElementsAre(2, 3));
  EXPECT_EQ(model.calls("Neg"), 1U);
  EXPECT_EQ(model.calls("Relu"), 1U);
  EXPECT_EQ(model.calls("Abs"), 3U);
  session.fix({{"memory", floats({2}, {-5, -6})}});
  EXPECT_THAT(values(session.run({{"x", floats({2}, {0, 0})}}), "y"), ElementsAre(5, 6));
  EXPECT_THAT(error_of([&] {
                session.run({{"x", floats({2}, {0, 0})}, {"memory", floats({2}, {0, 0})}});
              }),
              HasSubstr("fixed"));
  EXPECT_THAT(error_of([&] { session.run({{"x", floats({3}, {0, 0, 0})}}); }), HasSubstr("input 'x'"));
}

// The projections of a fixed memory are computed once, though they lie in the same node as what attends.
TEST(Session, AttentionsProjectAFixedMemoryOnce) {
  constexpr std::string_view kAttention = R"(<ir_version: 10, opset_import: ["" : 18, "ai.attune" : 1]>
    g (float[b,q,4] x, float[b,k,3] memory, float[4,4] wq, float[3,4] wk, float[3,4] wv) => (float[b,q,4] y) {
      y = ai.attune.Attention <num_heads = 2> (x, memory, memory, wq, wk, wv)
    })";
  const auto wave = [](const Shape& shape, float step) {
    std::vector<float> v(static_cast<size_t>(shape.count()));
    for (size_t i = 0; i < v.size(); ++i) v[i] = std::sin(step * static_cast<float>(i));
    return floats(shape, v);
  };
  const TensorMap weights{{"wq", wave({4, 4}, 0.3F)}, {"wk", wave({3, 4}, 0.7F)}, {"wv", wave({3, 4}, 1.1F)}};
  const Tensor memory = wave({1, 5, 3}, 0.9F);
  TensorMap fixed = weights, all = weights;
  fixed["memory"] = all["memory"] = memory;
  PlanOptions options;
  options.fixed_inputs = {"memory", "wk", "wv", "wq"};
  Counted split(kAttention, options);
  Counted whole(kAttention);
  split.session().fix(fixed);
  for (int step = 0; step < 3; ++step) {
    split.reset();
    all["x"] = wave({1, 1, 4}, 0.1F * static_cast<float>(step + 1));
    const auto expected = values(whole.session().run(all), "y");
    const auto y = values(split.session().run({{"x", all["x"]}}), "y");
    for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], expected[i], 1e-5);
    EXPECT_EQ(split.calls("ai.attune.Linear"), step == 0 ? 2U : 0U);
    EXPECT_EQ(split.calls("ai.attune.Attention"), 1U);
  }
  EXPECT_EQ(whole.calls("ai.attune.Linear"), 0U);
}

TEST(Session, LargeFixedValuesComeBackWhenShapesChange) {
  // `long` is released after `sum`, which must run again when the shape of x changes.
  PlanOptions options;
  options.fixed_inputs = {"memory"};
  Session session(Plan::compile(parse_model(R"(<ir_version: 10, opset_import: ["" : 18]>
    g (float[m] memory, float[n] x) => (float[m] y) <int64[1] zero = {0}> {
      long = Neg(memory)
      shape = Shape(x)
      size = Cast <to = 1> (shape)
      sum = Add(long, size)
      first = ReduceSum <keepdims = 1> (x)
      y = Add(sum, first)
    })"),
                                options));
  session.fix({{"memory", floats({4000}, std::vector<float>(4000, -1))}});
  for (const int64_t n : {1, 2, 2, 5, 1}) {
    const auto y = values(session.run({{"x", floats({n}, std::vector<float>(static_cast<size_t>(n), 0))}}), "y");
    EXPECT_EQ(y[3999], 1 + static_cast<float>(n));
  }
}

TEST(Session, OutputsThatNobodyWantsCostNothing) {
  Counted model(R"(<ir_version: 10, opset_import: ["" : 18]>
    g (float[n] x) => (float[n] y, float[n] z, int64[1] s) { y = Relu(x) z = Neg(x) s = Shape(x) })");
  const auto out = model.session().run({{"x", floats({1}, {2})}}, {"y"});
  EXPECT_EQ(out.size(), 1U);
  EXPECT_EQ(model.calls("Neg") + model.calls("Shape"), 0U);
  // What was left out then is there later, and right.
  EXPECT_EQ(model.session().run({{"x", floats({1}, {2})}}).at("s").tensor().to_int64(), std::vector<int64_t>{1});
}

TEST(Session, ErrorsNameTheNodeAndLeaveTheSessionSound) {
  Session session(Plan::compile(parse_model(R"(<ir_version: 10, opset_import: ["" : 18]>
    g (float[a] x, float[b] z) => (float[c] y, int64[1] s) { s = Shape(x) t = Add(x, z) y = Relu(t) })")));
  const std::string error = error_of([&] { session.run({{"x", floats({2}, {1, 2})}, {"z", floats({3}, {1, 2, 3})}}); });
  EXPECT_THAT(error, HasSubstr("(Add)"));
  const auto out = session.run({{"x", floats({2}, {1, 2})}, {"z", floats({2}, {1, -4})}});
  EXPECT_THAT(values(out, "y"), ElementsAre(2, 0));
  EXPECT_EQ(out.at("s").tensor().to_int64(), std::vector<int64_t>{2});
}

TEST(Session, ChecksInputs) {
  Session session(Plan::compile(parse_model(R"(<ir_version: 10, opset_import: ["" : 18]>
    g (float[b,4] x, float[b] z) => (float[b,4] y) <int64[1] one = {1}> { u = Unsqueeze(z, one) y = Add(x, u) })")));
  const auto x = floats({2, 4}, std::vector<float>(8)), z = floats({2}, {1, 2});
  EXPECT_NO_THROW(session.run({{"x", x}, {"z", z}}));
  EXPECT_THAT(error_of([&] { session.run({{"x", x}}); }), HasSubstr("input 'z'"));
  EXPECT_THAT(error_of([&] { session.run({{"x", x}, {"z", z}, {"q", z}}); }), HasSubstr("no input 'q'"));
  EXPECT_THAT(error_of([&] {
                session.run({{"x", floats({2, 3}, std::vector<float>(6))}, {"z", z}});
              }),
              HasSubstr("size 4 on axis 1"));
  EXPECT_THAT(error_of([&] {
                session.run({{"x", x}, {"z", floats({3}, {1, 2, 3})}});
              }),
              HasSubstr("'b', as in input 'x'"));
  EXPECT_THAT(error_of([&] { session.run({{"x", x}, {"z", floats({2, 1}, {1, 2})}}); }), HasSubstr("rank 1"));
  EXPECT_THAT(error_of([&] {
                session.run({{"x", x}, {"z", Tensor::from<int64_t>({2}, {1, 2})}});
              }),
              HasSubstr("float"));
  EXPECT_NO_THROW(session.run({{"x", x}, {"z", z}}));
}

TEST(Session, DefaultsOfInputs) {
  Session session(Plan::compile(parse_model(R"(<ir_version: 10, opset_import: ["" : 18]>
    g (float[2] x, float[2] d = {1, 2}) => (float[2] y) { y = Add(x, d) })")));
  EXPECT_THAT(values(session.run({{"x", floats({2}, {0, 0})}}), "y"), ElementsAre(1, 2));
  EXPECT_THAT(values(session.run({{"x", floats({2}, {0, 0})}, {"d", floats({2}, {5, 5})}}), "y"), ElementsAre(5, 5));
  EXPECT_THAT(values(session.run({{"x", floats({2}, {0, 0})}}), "y"), ElementsAre(1, 2));
}

TEST(Session, InputsAndConstantsAsOutputs) {
  Session session(Plan::compile(parse_model(R"(<ir_version: 10, opset_import: ["" : 18]>
    g (float[2] x) => (float[2] y, float[2] z) <float[2] c = {1, 2}> { y = Identity(x) z = Identity(c) })")));
  for (int i = 0; i < 2; ++i) {
    const auto out = session.run({{"x", floats({2}, {3, 4})}});
    EXPECT_THAT(values(out, "y"), ElementsAre(3, 4));
    EXPECT_THAT(values(out, "z"), ElementsAre(1, 2));
  }
}

// x is halved n times; in the body, `scale` and what is computed from it lie outside the iteration.
constexpr std::string_view kLoop = R"(<ir_version: 10, opset_import: ["" : 18]>
  g (int64 n, float[m] x, float[1] scale) => (float[m] y) {
    always = Constant <value = bool {1}> ()
    half = Neg(scale)
    y = Loop (n, always, x) <body = b (int64 i, bool c, float[m] s) => (bool d, float[m] t) {
      d = Identity(c)
      abs = Abs(half)
      t = Mul(s, abs)
    }>
  })";

TEST(Session, LoopsComputeWhatStaysOnce) {
  Counted model(kLoop);
  for (int round = 0; round < 2; ++round) {
    for (const float scale : {0.5F, 2.0F}) {
      model.reset();
      const auto out = model.session().run(
          {{"n", Tensor::scalar<int64_t>(3)}, {"x", floats({2}, {8, 16})}, {"scale", floats({1}, {scale})}});
      const float f = scale * scale * scale;
      EXPECT_THAT(values(out, "y"), ElementsAre(8 * f, 16 * f));
      EXPECT_EQ(model.calls("Abs"), 1U);
      EXPECT_EQ(model.calls("Mul"), 3U);
    }
  }
}

TEST(Session, BranchesSeeShapesAndFixedValues) {
  PlanOptions options;
  options.fixed_inputs = {"memory"};
  Counted model(R"(<ir_version: 10, opset_import: ["" : 18]>
    g (bool c, float[n] memory, float[n] x) => (float[n] y) {
      y = If (c) <then_branch = t () => (float[n] u) { a = Neg(memory) u = Add(a, x) },
                  else_branch = e () => (float[n] v) { v = Abs(x) }>
    })",
                options);
  Session& session = model.session();
  session.fix({{"memory", floats({1}, {-3})}});
  const auto run = [&](bool c) {
    return values(session.run({{"c", Tensor::scalar<bool>(c)}, {"x", floats({1}, {-1})}}), "y")[0];
  };
  EXPECT_EQ(run(true), 2);
  EXPECT_EQ(run(false), 1);
  EXPECT_EQ(run(true), 2);
  EXPECT_EQ(model.calls("Neg"), 1U);
  session.fix({{"memory", floats({1}, {-5})}});
  EXPECT_EQ(run(false), 1);
  EXPECT_EQ(run(true), 4);
}

TEST(Session, AllocatesNothingOnceItsShapesAreKnown) {
  Session session(Plan::compile(parse_model(R"(<ir_version: 10, opset_import: ["" : 18]>
    g (float[b,t] x) => (float[b,t] y) {
      e = Exp(x) shape = Shape(x) r = Reshape(e, shape) s = Softmax(r) q = Add(s, x) y = Relu(q) })")));
  std::vector<Datum> inputs(1), outputs;
  const auto run = [&](int64_t t) {
    inputs[0] = Tensor::allocate(DataType::kFloat, {4, t}, &session.pool());
    std::fill_n(inputs[0].tensor().mutable_data<float>(), 4 * t, 0.5F);
    session.run(inputs, outputs);
  };
  for (int round = 0; round < 2; ++round)
    for (const int64_t t : {1000, 2000}) run(t);
  const size_t before = session.pool().heap_allocations();
  for (int round = 0; round < 10; ++round)
    for (const int64_t t : {1000, 2000}) run(t);
  EXPECT_EQ(session.pool().heap_allocations(), before);
}

TEST(Session, MemoryDoesNotGrowWithEachNewShape) {
  Session session(Plan::compile(parse_model(R"(<ir_version: 10, opset_import: ["" : 18]>
    g (float[t] x) => (float[t] y) { a = Exp(x) b = Neg(a) c = Add(a, b) y = Relu(c) })")));
  size_t largest = 0;
  for (int64_t t = 1 << 18; t < 3 << 18; t += 10000) {
    session.run({{"x", floats({t}, std::vector<float>(static_cast<size_t>(t)))}});
    largest = std::max(largest, session.pool().idle_bytes());
  }
  // Four tensors of the largest size at once, with the slack that recycling is given.
  EXPECT_LT(largest, (size_t{4} * 4 * (3 << 18)) * 4 + (16 << 20));
}

TEST(Session, SessionsOfOnePlanRunAtOnce) {
  const auto plan = Plan::compile(parse_model(kLoop));
  std::vector<std::thread> threads;
  std::array<bool, 4> right{};
  for (size_t i = 0; i < right.size(); ++i)
    threads.emplace_back([&, i] {
      Session session(plan, {.threads = 1});
      right[i] = true;
      for (int round = 0; round < 50; ++round) {
        const auto x = static_cast<float>(i + 1);
        const auto out =
            session.run({{"n", Tensor::scalar<int64_t>(2)}, {"x", floats({1}, {x})}, {"scale", floats({1}, {3})}});
        right[i] = right[i] && values(out, "y")[0] == 9 * x;
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_THAT(right, testing::Each(true));
}

TEST(Profile, TableAndTrace) {
  Profile profile;
  Session session(Plan::compile(parse_model(R"(<ir_version: 10, opset_import: ["" : 18]>
    g (float[2,3] x) => (float[2,2] y) <float[3,2] w = {1, 2, 3, 4, 5, 6}> { y = MatMul(x, w) })")),
                  {.threads = 1, .profile = &profile});
  session.run({{"x", floats({2, 3}, {1, 2, 3, 4, 5, 6})}});
  ASSERT_EQ(profile.events().size(), 1U);
  EXPECT_EQ(profile.events()[0].flops(), 2 * 2 * 3 * 2);
  EXPECT_THAT(profile.table(), HasSubstr("MatMul"));
  const auto trace = nlohmann::json::parse(profile.chrome_trace());
  ASSERT_EQ(trace.at("traceEvents").size(), 1U);
  const auto& event = trace["traceEvents"][0];
  EXPECT_EQ(event.at("ph"), "X");
  EXPECT_EQ(event.at("ts"), 0.0);
  EXPECT_GT(event.at("dur"), 0.0);
  EXPECT_EQ(event.at("args").at("bytes"), (6 + 6 + 4) * sizeof(float));
  EXPECT_EQ(event["args"].at("flops"), 24);
  EXPECT_THAT(event["args"].at("implementation").get<std::string>(), HasSubstr("panels"));
}

// Multiplications and additions count as one each.
TEST(Profile, FloatingPointOperations) {
  const auto flops = [](std::string op, std::vector<Shape> inputs, Shape output) {
    ProfileEvent e;
    e.op = std::move(op);
    e.inputs = std::move(inputs);
    e.outputs = {output};
    return e.flops();
  };
  EXPECT_EQ(flops("Gemm", {{2, 3}, {3, 4}}, {2, 4}), 2 * 2 * 3 * 4);
  EXPECT_EQ(flops("Conv", {{1, 3, 10}, {4, 3, 5}}, {1, 4, 6}), 2 * 6 * 4 * 3 * 5);
  // Five steps of two rows, three inputs, hidden 4: four gates of (3 + 4) products each, in both directions.
  EXPECT_EQ(flops("LSTM", {{5, 2, 3}, {2, 16, 3}, {2, 16, 4}}, {5, 2, 2, 4}), 2 * 5 * 2 * 2 * 16 * (3 + 4));
  // Two queries of width 8 to 5 + 3 keys: scores and values; and projections of width 6 to 8.
  std::vector<Shape> inputs(13);
  inputs[0] = {1, 2, 8};
  inputs[1] = inputs[2] = {1, 5, 8};
  inputs[11] = inputs[12] = {1, 4, 3, 2};
  EXPECT_EQ(flops("ai.attune.Attention", inputs, {1, 2, 8}), 2 * 2 * 8 * (5 + 3) * 2);
  inputs[0] = {1, 2, 6};
  inputs[3] = {6, 8};
  EXPECT_EQ(flops("ai.attune.Attention", inputs, {1, 2, 8}), 2 * 2 * 6 * 8 + 2 * 2 * 8 * (5 + 3) * 2);
  EXPECT_EQ(flops("Relu", {{2, 3}}, {2, 3}), 0);
}

TEST(Session, AShapeThatWasRefusedIsRefusedAgain) {
  Session session(Plan::compile(parse_model(R"(<ir_version: 10, opset_import: ["" : 18]>
    g (float[n] a, float[n] b) => (float[n] y) { y = Add (a, b) })"),
                                {}));
  const auto ones = [](int64_t n) { return Datum(floats({n}, std::vector<float>(static_cast<size_t>(n), 1.0F))); };
  EXPECT_EQ(values(session.run({{"a", ones(1)}, {"b", ones(1)}}), "y").size(), 1U);
  EXPECT_THAT(error_of([&] { session.run({{"a", ones(3)}}); }), HasSubstr("'b'"));
  EXPECT_THAT(error_of([&] { session.run({{"a", ones(3)}, {"b", ones(1)}}); }), HasSubstr("n"));
}

}  // namespace
}  // namespace attune
