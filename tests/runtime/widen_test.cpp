// Halves between operators: what stays float32, and where it is rounded.
#include "runtime/widen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "graph/io/text.h"
#include "ops/infer/infer.h"
#include "runtime/profile.h"
#include "runtime/session.h"
#include "tests/support/profiled_run.h"

namespace attune {
namespace {

using testing::ElementsAre;

Tensor halves(const Shape& shape, const std::vector<float>& values) {
  std::vector<Float16> h;
  for (const float v : values) h.push_back(Float16(v));
  return Tensor::from<Float16>(shape, h);
}

std::string in_graph(const std::string& graph) {
  return "<ir_version: 10, opset_import: [\"\" : 21, \"ai.attune\" : 1]> g " + graph;
}

test::ProfiledRun run(const std::string& graph, const TensorMap& inputs) {
  return test::profiled_run(parse_model(in_graph(graph)), inputs);
}

// ONNX text takes the bits of a float16: 15360 is 1, 14336 is 0.5.
constexpr float kTiny = 0x1p-11F;  // 1 + kTiny rounds to 1 in float16, and kTiny is one

TEST(Widen, ChainsAreNotRoundedBetweenOperators) {
  const test::ProfiledRun r = run("(float16[1] x, float16[1] t) => (float16[1] y) { a = Add(x, t) y = Sub(a, x) }",
                                  {{"x", halves({1}, {1})}, {"t", halves({1}, {kTiny})}});
  EXPECT_EQ(r.type, DataType::kFloat16);
  EXPECT_THAT(r.y, ElementsAre(kTiny));
}

TEST(Widen, BFloat16Too) {
  const float tiny = 0x1p-9F;
  const std::vector<BFloat16> one{BFloat16(1.0F)}, small{BFloat16(tiny)};
  const test::ProfiledRun r = run("(bfloat16[1] x, bfloat16[1] t) => (bfloat16[1] y) { a = Add(x, t) y = Sub(a, x) }",
                                  {{"x", Tensor::from<BFloat16>({1}, one)}, {"t", Tensor::from<BFloat16>({1}, small)}});
  EXPECT_EQ(r.type, DataType::kBFloat16);
  EXPECT_THAT(r.y, ElementsAre(tiny));
}

TEST(Widen, IntermediateValuesDoNotOverflow) {
  const test::ProfiledRun r =
      run("(float16[1] x) => (float16[1] y) { a = Mul(x, x) y = Sqrt(a) }", {{"x", halves({1}, {60000})}});
  EXPECT_THAT(r.y, ElementsAre(60000));
}

TEST(Widen, MovedValuesStayWide) {
  const test::ProfiledRun r = run(R"((float16[2,1] x, float16[1] t) => (float16[1,4] y) <float16[1] one = {15360}> {
    a = Add(x, t)
    b = Transpose <perm = [1, 0]> (a)
    c = Concat <axis = 1> (b, b)
    y = Sub(c, one)
  })",
                                  {{"x", halves({2, 1}, {1, 1})}, {"t", halves({1}, {kTiny})}});
  EXPECT_THAT(r.y, ElementsAre(kTiny, kTiny, kTiny, kTiny));
}

TEST(Widen, ACastToAHalfRounds) {
  const test::ProfiledRun r = run(R"((float16[1] x, float16[1] t) => (float16[1] y) {
    a = Add(x, t)
    f = Cast <to = 1> (a)
    h = Cast <to = 10> (f)
    y = Sub(h, x)
  })",
                                  {{"x", halves({1}, {1})}, {"t", halves({1}, {kTiny})}});
  EXPECT_THAT(r.y, ElementsAre(0));
}

TEST(Widen, ACastToTheTypeThatItHasDoesNot) {
  const test::ProfiledRun r =
      run("(float16[1] x, float16[1] t) => (float16[1] y) { a = Add(x, t) h = Cast <to = 10> (a) y = Sub(h, x) }",
          {{"x", halves({1}, {1})}, {"t", halves({1}, {kTiny})}});
  EXPECT_EQ(r.type, DataType::kFloat16);
  EXPECT_THAT(r.y, ElementsAre(kTiny));
}

TEST(Widen, ACastToFloatDoesNot) {
  const test::ProfiledRun r =
      run("(float16[1] x, float16[1] t) => (float[1] y) { a = Add(x, t) y = Cast <to = 1> (a) }",
          {{"x", halves({1}, {1})}, {"t", halves({1}, {kTiny})}});
  EXPECT_EQ(r.type, DataType::kFloat);
  EXPECT_THAT(r.y, ElementsAre(1 + kTiny));
}

TEST(Widen, ValuesThatAreAlsoOutputsAreRoundedOnlyThere) {
  Session session(Plan::compile(parse_model(
      in_graph("(float16[1] x, float16[1] t) => (float16[1] y, float16[1] a) { a = Add(x, t) y = Sub(a, x) }"))));
  const TensorMap out = session.run({{"x", halves({1}, {1})}, {"t", halves({1}, {kTiny})}});
  EXPECT_EQ(out.at("a").tensor().type(), DataType::kFloat16);
  EXPECT_THAT(out.at("a").tensor().to_double(), ElementsAre(1));
  EXPECT_THAT(out.at("y").tensor().to_double(), ElementsAre(kTiny));
}

TEST(Widen, BodiesReadWideValuesFromOutside) {
  const test::ProfiledRun r = run(R"((bool c, float16[1] x, float16[1] t) => (float16[1] y) {
    a = Add(x, t)
    y = If (c) <then_branch = p () => (float16[1] u) { u = Sub(a, x) },
                else_branch = q () => (float16[1] v) { v = Neg(a) }>
  })",
                                  {{"c", Tensor::scalar(true)}, {"x", halves({1}, {1})}, {"t", halves({1}, {kTiny})}});
  EXPECT_EQ(r.type, DataType::kFloat16);
  EXPECT_THAT(r.y, ElementsAre(kTiny));
}

TEST(Widen, StatesOfALoopKeepTheirType) {
  const test::ProfiledRun r = run(R"((float16[1] x) => (float16[1] y) {
    n = Constant <value = int64 {3}> ()
    c = Constant <value = bool {1}> ()
    y = Loop (n, c, x) <body = b (int64 i, bool k, float16[1] s) => (bool k2, float16[1] s2) {
      k2 = Identity(k)
      d = Add(s, s)
      s2 = Add(d, s)
    }>
  })",
                                  {{"x", halves({1}, {2})}});
  EXPECT_EQ(r.type, DataType::kFloat16);
  EXPECT_THAT(r.y, ElementsAre(54));
}

TEST(Widen, ACacheIsMovedAsItIs) {
  Profile profile;
  Session session(Plan::compile(parse_model(
                      in_graph(R"((float16[1,n] past, float16[1,1] x) => (float16[1,m] present, float16[1,m] y) {
    new = Add(x, x)
    present = Concat <axis = 1> (past, new)
    y = Neg(present)
  })"))),
                  {.threads = 1, .profile = &profile});
  session.run({{"past", halves({1, 2}, {1, 2})}, {"x", halves({1, 1}, {3})}}, {"present"});
  size_t cast_elements = 0;
  for (const auto& e : profile.events())
    if (e.op == "Cast") cast_elements += static_cast<size_t>(e.inputs[0].count());
  EXPECT_EQ(cast_elements, 2U) << "x to float, the new row to float16; not the past";
}

// Over one position the context is its value.
TEST(Widen, AttentionReadsAndGivesWideValues) {
  const test::ProfiledRun r = run(R"((float16[1,1,1] x, float16[1,1,1] t) => (float16[1,1,1] y) {
    a = Add(x, t)
    c = ai.attune.Attention <num_heads = 1> (a)
    y = Sub(c, x)
  })",
                                  {{"x", halves({1, 1, 1}, {1})}, {"t", halves({1, 1, 1}, {kTiny})}});
  EXPECT_THAT(r.y, ElementsAre(kTiny));
}

TEST(Widen, AttentionOverACacheReadsItAsItIs) {
  Profile profile;
  Session session(
      Plan::compile(parse_model(in_graph(R"((float16[1,1,1] x, float16[1,1,N,1] past) => (float16[1,1,1] y) {
    a = Add(x, x)
    y = ai.attune.Attention <num_heads = 1> (a, a, a, , , , , , , , , past, past)
  })"))),
      {.threads = 1, .profile = &profile});
  session.run({{"x", halves({1, 1, 1}, {1})}, {"past", halves({1, 1, 2, 1}, {1, 2})}}, {"y"});
  for (const auto& e : profile.events())
    if (e.op == "Cast") {
      EXPECT_EQ(e.inputs[0].count(), 1) << "what comes in and goes out; not the past";
    }
}

// Scores 1024 (1 + kTiny) and 1024: a query that was rounded would see both keys alike.
void expect_exact_query(const std::string& rounding) {
  const test::ProfiledRun r =
      run("(float16[1,1,2] x, float16[1,1,2] t, float16[1,1,1,2] pk, float16[1,1,1,2] pv, float16[1,1,2] k, "
          "float16[1,1,2] v)"
          " => (float16[1,1,2] y) { a = Add(x, t) " +
              rounding + R"(
    y = ai.attune.Attention <num_heads = 1, scale = 1.0> (q, k, v, , , , , , , , , pk, pv)
  })",
          {{"x", halves({1, 1, 2}, {1, 1})},
           {"t", halves({1, 1, 2}, {kTiny, 0})},
           {"pk", halves({1, 1, 1, 2}, {1024, 0})},
           {"pv", halves({1, 1, 1, 2}, {1, 0})},
           {"k", halves({1, 1, 2}, {0, 1024})},
           {"v", halves({1, 1, 2}, {0, 1})}});
  const double weight = 1 / (1 + std::exp(-0.5));
  EXPECT_THAT(r.y, ElementsAre(testing::DoubleNear(weight, 1e-3), testing::DoubleNear(1 - weight, 1e-3)));
}

TEST(Widen, QueriesBesideACacheAreExact) { expect_exact_query("q = Identity (a)"); }
TEST(Widen, QueriesThatAFileRoundsForItsTypesAreExact) {
  expect_exact_query("f = Cast <to = 1> (a) q = Cast <to = 10> (f)");
}

TEST(Widen, QuantizedWeightsWithHalfScalesStayPacked) {
  const test::ProfiledRun r =
      run(R"((float16[1,2] x) => (float16[1,2] y) <int8[2,2] q = {1, 2, 3, 4}, float16 s = {14336}> {
    w = DequantizeLinear(q, s)
    y = MatMul(x, w)
  })",
          {{"x", halves({1, 2}, {1, 2})}});
  EXPECT_THAT(r.y, ElementsAre(3.5, 5));
  EXPECT_THAT(r.ops, testing::Not(testing::Contains("DequantizeLinear")));
}

TEST(Widen, OperatorsThatAreNotKnownToComputeReadHalves) {
  const test::ProfiledRun r = run(R"((float16[1] x, float16[1] t) => (float16[1] y) {
    a = Add(x, t)
    s = SequenceConstruct(a, x)
    zero = Constant <value = int64 {0}> ()
    b = SequenceAt(s, zero)
    y = Sub(b, x)
  })",
                                  {{"x", halves({1}, {1})}, {"t", halves({1}, {kTiny})}});
  EXPECT_THAT(r.y, ElementsAre(0));
}

TEST(Widen, IntegerResultsOfWideValues) {
  const test::ProfiledRun r = run("(float16[2] x, float16[2] t) => (int64[1] y) { a = Add(x, t) y = ArgMax(a) }",
                                  {{"x", halves({2}, {1, 1})}, {"t", halves({2}, {0, kTiny})}});
  EXPECT_THAT(r.y, ElementsAre(1));
}

// --- in files

std::string in_file(const std::string& graph, HalfCaches caches = HalfCaches::kAsStored) {
  Model model = parse_model(in_graph(graph));
  const Inference types(model);
  widen_halves(*model.graph, HalfMatrices::kBehindCasts, caches, [](Node&) {});
  model.graph->sort();
  return to_text(model);
}

TEST(WidenInFiles, MatricesStayHalvesBehindCastsAndOutputsKeepNameAndType) {
  const std::string text = in_file(R"((float16[N,2] x) => (float16[N,2] y)
    <float16[2,2] w = {15360, 14336, 0, 15360}, float16[2] b = {15360, 14336}> {
    p = MatMul(x, w)
    y = Add(p, b)
  })");
  Model model = parse_model(text);
  const Inference types(model);
  ASSERT_EQ(model.graph->outputs().size(), 1U);
  const Value& y = *model.graph->outputs()[0];
  EXPECT_EQ(y.name(), "y");
  EXPECT_EQ(y.element_type(), DataType::kFloat16);
  ASSERT_TRUE(y.producer()->is("Cast"));
  const Node& add = *y.producer()->input(0)->producer();
  ASSERT_TRUE(add.is("Add"));
  EXPECT_EQ(add.input(1)->element_type(), DataType::kFloat);
  EXPECT_TRUE(add.input(1)->constant());
  const Node& product = *add.input(0)->producer();
  ASSERT_TRUE(product.is("MatMul"));
  ASSERT_TRUE(product.input(1)->producer()->is("Cast"));
  EXPECT_EQ(product.input(1)->producer()->input(0)->constant()->type(), DataType::kFloat16);
  Session session(Plan::compile(std::move(model)));
  const TensorMap out = session.run({{"x", halves({1, 2}, {1, 2})}});
  EXPECT_THAT(out.at("y").tensor().to_double(), ElementsAre(2, 3));
}

TEST(WidenInFiles, LinearTakesItsMatrixAsItIs) {
  Model model =
      parse_model(in_file(R"((float16[N,2] x) => (float16[N,2] y) <float16[2,2] w = {15360, 14336, 0, 15360}> {
    y = ai.attune.Linear (x, w)
  })"));
  const Inference types(model);
  const Node& linear = *model.graph->outputs()[0]->producer()->input(0)->producer();
  ASSERT_TRUE(linear.is("Linear", "ai.attune"));
  EXPECT_EQ(linear.input(0)->element_type(), DataType::kFloat);
  ASSERT_TRUE(linear.input(1)->constant());
  EXPECT_EQ(linear.input(1)->element_type(), DataType::kFloat16);
  EXPECT_EQ(linear.output()->element_type(), DataType::kFloat);
}

TEST(WidenInFiles, CachesAndTheirAttentionStay) {
  const std::string text =
      in_file(R"((float16[1,1,1] x, float16[1,1,N,1] past) => (float16[1,1,1] y, float16[1,1,M,1] k) {
    a = Add(x, x)
    c, , k = ai.attune.Attention <num_heads = 1> (a, a, a, , , , , , , , , past, past)
    y = Add(c, x)
  })");
  Model model = parse_model(text);
  const Inference types(model);
  model.graph->for_each_node([&](const Node& n) {
    for (const Value* v : n.inputs())
      if (v && n.is("Attention", "ai.attune")) {
        EXPECT_EQ(v->element_type(), DataType::kFloat16) << v->name();
      } else if (v && n.is("Add")) {
        EXPECT_EQ(v->element_type(), DataType::kFloat) << v->name();
      }
  });
  EXPECT_EQ(model.graph->outputs()[1]->name(), "k");
  EXPECT_TRUE(model.graph->outputs()[1]->producer()->is("Attention", "ai.attune"));
}

// Scores 1024 (1 + kTiny) and 1024: a query that was rounded would see both keys alike.
TEST(WidenInFiles, CachesBehindCastsLeaveQueriesExact) {
  Model model = parse_model(in_file(R"((float16[1,1,1,2] x, float16[2] t, float16[1,1,1,2] past, float16[1,1,1,2] new)
      => (float16[1,1,1,2] y, float16[1,1,2,2] k) {
    a = Add(x, t)
    y, k = ai.attune.Attention <scale = 1.0> (a, new, new, , , , , , , , , past, past)
  })",
                                    HalfCaches::kBehindCasts));
  {
    const Inference types(model);
    model.graph->for_each_node([](const Node& n) {
      for (const Value* v : n.inputs())
        if (v && n.is("Attention", "ai.attune")) {
          EXPECT_EQ(v->element_type(), DataType::kFloat) << v->name();
        }
    });
  }
  Session session(Plan::compile(std::move(model)));
  const TensorMap out = session.run({{"x", halves({1, 1, 1, 2}, {1, 1})},
                                     {"t", halves({2}, {kTiny, 0})},
                                     {"past", halves({1, 1, 1, 2}, {1024, 0})},
                                     {"new", halves({1, 1, 1, 2}, {0, 1024})}});
  const double weight = 1 / (1 + std::exp(-0.5));
  EXPECT_THAT(out.at("y").tensor().to_double(),
              ElementsAre(testing::DoubleNear(1024 * weight, 0.5), testing::DoubleNear(1024 * (1 - weight), 0.5)));
  EXPECT_EQ(out.at("k").tensor().type(), DataType::kFloat16);
  EXPECT_THAT(out.at("k").tensor().to_double(), ElementsAre(1024, 0, 0, 1024));
}

// As of a model read without its external data.
TEST(Widen, ConstantsWithoutDataCountByTheirType) {
  for (const bool half : {false, true}) {
    Graph graph;
    Value* w = graph.add_constant(Tensor(), "w");
    w->set_type(ValueType::of(half ? DataType::kFloat16 : DataType::kFloat, Dims{4}));
    EXPECT_EQ(has_halves(graph), half);
  }
}

}  // namespace
}  // namespace attune
