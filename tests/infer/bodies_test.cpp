// Control flow, functions, sequences; updates after a rewrite; malformed models.
#include <gmock/gmock.h>

#include <ctime>

#include "tests/infer/rows.h"

namespace attune {
namespace {

using test::check;
using test::infer_text;
using test::parse_graph;
using testing::HasSubstr;
using testing::StartsWith;

TEST(InferBodies, IfTakesWhatBranchesAgreeOn) {
  check({
      {R"((bool c, float[b,n,8] x) => (y) { y = If(c) <
           then_branch = t () => (p) { p = Relu(x) },
           else_branch = e () => (q) { q = Concat<axis = 1>(x, x) }> })",
       "float(b,?0,8)"},
      {R"((bool c, float[b,n] x) => (y) <int64[1] a = {0}> { y = If(c) <
           then_branch = t () => (p) { p = Relu(x) },
           else_branch = e () => (q) { q = Unsqueeze(x, a) }> })",
       "float(?)"},
      {R"((bool c, float[b,n] x) => (y) { y = If(c) <
           then_branch = t () => (p) { p = Relu(x) },
           else_branch = e () => (q) { q = Shape(x) }> })",
       "invalid: node of 'y' (If): float(b,n) and int64(2) meet"},
  });
}

// TorchScript's squeeze: the branch that isn't taken contradicts the size.
TEST(InferBodies, IfWithAKnownConditionTakesThatBranch) {
  check({{R"((float[b,8,n] x) => (y) <int64 i = {1}, int64 one = {1}, int64[1] axis = {1}>
             { s = Shape(x) d = Gather(s, i) c = Equal(d, one) y = If(c) <
               then_branch = t () => (p) { p = Squeeze(x, axis) },
               else_branch = e () => (q) { q = Identity(x) }> })",
          "float(b,8,n)"}});
}

// Squeeze in a branch that may not run tells nothing about the size outside of it.
TEST(InferBodies, BranchesDontTellSizesOutside) {
  check({{R"((bool c, float[b,64] x, int64[2] shape) => (h, y) <int64[1] axis = {0}> { h = Reshape(x, shape) y = If(c) <
               then_branch = t () => (p) { p = Squeeze(h, axis) },
               else_branch = e () => (q) { q = ReduceSum<keepdims = 0>(h, axis) }> })",
          "float(?0,?1); float(?1)"}});
}

TEST(InferBodies, LoopStatesKeepWhatEachRunKeeps) {
  check({
      {R"((int64 count, bool go, float[b,1] x, float[b,64] h) => (x2, h2, all) { x2, h2, all = Loop(count, go, x, h) <
           body = l (int64 i, bool c, float[b,k] xi, float[b,64] hi) => (co, xo, ho, a) {
             co = Identity(c) xo = Concat<axis = 1>(xi, xi) ho = Tanh(hi) a = Relu(ho) }> })",
       "float(b,?0); float(b,64); float(?1,b,64)"},
      {R"((float[b,64] h) => (h2, all) <int64 count = {5}, bool yes = {1}> { h2, all = Loop(count, yes, h) <
           body = l (int64 i, bool c, float[p,q] hi) => (co, ho, a) { co = Identity(c) ho = Tanh(hi) a = Relu(ho) }> })",
       "float(b,64); float(5,b,64)"},
      {R"((int64 count, bool go, float[b,64] h) => (h2) { h2 = Loop(count, go, h) <
           body = l (int64 i) => (co) { co = Identity(i) }> })",
       "invalid: node of 'h2' (Loop): 1 states for a body of 1 inputs"},
  });
}

TEST(InferBodies, ScanGoesAlongAnAxis) {
  check({{R"((float[b,32] h, float[n,b,16] x) => (h2, y) { h2, y = Scan(h, x) <num_scan_inputs = 1,
               body = s (float[b,32] hi, float[b,16] xi) => (ho, yo) { ho = Tanh(hi) yo = Concat<axis = 1>(hi, xi) }> })",
          "float(b,32); float(n,b,48)"}});
}

TEST(InferBodies, Sequences) {
  check({
      {"(float[b,n] x, float[b,m] z) => (s, y) <int64 i = {0}> { s = SequenceConstruct(x, z) y = SequenceAt(s, i) }",
       "seq(float(b,?)); float(b,?0)"},
      {"(float[b,n] x) => (y, l) { e = SequenceEmpty() s = SequenceInsert(e, x) y = ConcatFromSequence<axis = 0>(s)"
       " l = SequenceLength(s) }",
       "float(?); int64()"},
      {"(float[b,n] x, int64 k) => (y) { s = SplitToSequence<axis = 1>(x, k) y = SequenceMap(s) <"
       " body = m (float[b,?] e) => (o) { o = Shape(e) }> }",
       "seq(int64(2))"},
      {"(float[b,n] x) => (y, h) { o = Optional(x) y = OptionalGetElement(o) h = OptionalHasElement(o) }",
       "float(b,n); bool()"},
  });
}

TEST(InferBodies, FunctionsAreInferredThroughTheirBody) {
  const std::string function = R"(
<domain: "local", opset_import: ["" : 21]>
Heads <heads> (x) => (y) { h = Constant<value_int: int = @heads>() a = Constant<value_ints = [0]>() u = Unsqueeze(h, a)
  z = Constant<value_ints = [0, 0]>() r = Constant<value_ints = [-1]>() t = Concat<axis = 0>(z, u, r) y = Reshape(x, t) }
)";
  EXPECT_EQ(infer_text("g (float[b,n,512] x, float[b,n,96] z) => (p, q) { p = local.Heads<heads = 8>(x)"
                       " q = local.Heads<heads = 3>(z) }" +
                       function),
            "float(b,n,8,64); float(b,n,3,32)");
  EXPECT_THAT(infer_text("g (float[b,n] x) => (p) { p = local.F(x) }\n<domain: \"local\", opset_import: [\"\" : 21, "
                         "\"local\" : 1]>\nF (x) => (y) { y = local.F(x) }"),
              HasSubstr("calls nest deeper than 32"));
}

TEST(InferBodies, DeclaredTypesAreKeptAndChecked) {
  check({
      {"(float[b,n] x) => (float[b,k] y) { y = com.unknown.Thing(x) }", "float(b,k)"},
      {"(float[b,n] x) => (float[b,k] y) { y = Relu(x) }", "float(b,n)"},
      {"(float[b,n] x) => (float[4,k] y) { y = Relu(x) }", "float(4,n)"},
      {"(float[b,3] x) => (float[b,4] y) { y = Relu(x) }",
       "invalid: node of 'y' (Relu) > value 'y': declared as float(b,4), but it is float(b,3)"},
      {"(float[b,3] x) => (int64[b,3] y) { y = Relu(x) }",
       "invalid: node of 'y' (Relu) > value 'y': declared as int64(b,3), but it is float(b,3)"},
  });
}

TEST(InferBodies, MalformedNodesAreErrors) {
  for (const char* graph : {
           "(float[b,n] x) => (y) { y = Add(x) }",
           "(float[b,n] x) => (y) { y = MatMul(, x) }",
           "(float[b,n] x) => (y) { y = Softmax() }",
           "(float[b,n] x) => (y) { y = Transpose<perm = 1>(x) }",
           "(float[b,n] x) => (y) { y = Gather<axis = 7>(x, x) }",
           "(float[b,n] x) => (y) { y = Concat<axis = \"1\">(x, x) }",
           "(float[b,n] x) => (y) { y = Cast<to = 99>(x) }",
           "(float[b,n] x) => (y) { y = If(x) }",
           "(float[b,n] x) => (y) { y = Loop() }",
           "(float[b,n] x) => (y) { y = Scan<num_scan_inputs = 5>(x) }",
           "(float[b,n] x) => (y) { y = Flatten<axis = 3>(x) }",
           "(float[b,n] x) => (y) { y = LayerNormalization<axis = 2>(x, x) }",
           "(float[b,n,k] x) => (y) { y = Conv<strides = [1, 1]>(x, x) }",
           "(float[b,n,k] x) => (y) { y = Conv<strides = [0]>(x, x) }",
           "(float[b,n] x) => (y) { y = SequenceAt(x, x) }",
           "(float[b,n] x) => (p, q) { p, q = Split<num_outputs = 1>(x) }",
       }) {
    EXPECT_THAT(infer_text(std::string("g ") + graph), StartsWith("invalid: node of ")) << graph;
  }
}

// Shape arithmetic on hostile numbers neither overflows nor hangs.
TEST(InferBodies, ExtremeNumbersAreHarmless) {
  for (const char* graph : {
           "() => (y) <int64 a = {9223372036854775807}> { y = Add(a, a) }",
           "() => (y) <int64 a = {-9223372036854775808}, int64 m = {-1}> { q = Div(a, m) r = Mod(a, m) n = Neg(a) t = "
           "Abs(a) y = Sum(q, r, n, t) }",
           "(float[b,n] x) => (y) <int64[4] p = {9223372036854775807, 1, 9223372036854775807, 1}> { y = Pad(x, p) }",
           "() => (y) <int64 a = {-9223372036854775807}, int64 l = {9223372036854775807}, int64 d = {1}> { y = "
           "Range(a, l, d) }",
           "() => (y) <float a = {0}, float l = {inf}, float d = {1}> { y = Range(a, l, d) }",
           "(float[b,9223372036854775807] x) => (y) { s = Size(x) y = Identity(s) }",
       }) {
    EXPECT_THAT(infer_text(std::string("g ") + graph), testing::Not(HasSubstr("other error"))) << graph;
  }
  std::string doubling = "g (float[b,n] x) => (y) { v0 = Shape(x) ";
  for (int i = 0; i < 200; ++i) doubling += fmt::format("m{0} = Mul(v{0}, v{0}) v{1} = Add(m{0}, v{0}) ", i, i + 1);
  EXPECT_EQ(infer_text(doubling + "y = Identity(v200) }"), "int64(2)");
}

TEST(InferUpdate, NewNodesAndTheirUsersAreInferred) {
  Model model = parse_graph(
      "g (float[b,n,512] x, int64[3] shape) => (y, s) { h = Reshape(x, shape) r = Relu(h) y = Identity(r) s = Shape(r) "
      "}");
  Inference inference(model);
  EXPECT_EQ(test::describe(inference, model.graph->outputs()[0]), "float(?0,?1,?2)");
  Node* reshape = model.graph->nodes().front().get();
  Node* transpose = model.graph->insert_node(reshape, "", "Transpose", {model.graph->inputs()[0]}, 1,
                                             {{"perm", std::vector<int64_t>{1, 0, 2}}});
  model.graph->replace_all_uses(reshape->output(), transpose->output());
  inference.update(transpose);
  EXPECT_EQ(test::describe(inference, model.graph->outputs()[0]), "float(n,b,512)");
  EXPECT_EQ(test::describe(inference, model.graph->outputs()[1]), "int64(3) [n,b,512]");
}

TEST(InferUpdate, ConstantsAreSeenWithoutUpdate) {
  Model model = parse_graph("g (float[b,n] x) => (y) { y = Relu(x) }");
  Inference inference(model);
  for (int64_t i = 0; i < 3; ++i) {
    Value* constant = model.graph->add_constant(Tensor::scalar<int64_t>(i));
    EXPECT_EQ(inference.scalar(constant), static_cast<double>(i));
    EXPECT_EQ(inference.constant_integers(constant), std::vector<int64_t>{i});
    model.graph->erase_constant(constant);
  }
}

TEST(InferAgain, GivesTheSameTypes) {
  const Model model = parse_graph(
      "g (float[b,64] x, int64[2] shape, float[64,8] w, bool c) => (h, y, z) { h = Reshape(x, shape) y = MatMul(h, w)"
      " z = If(c) <then_branch = t () => (p) { p = Relu(y) }, else_branch = e () => (q) { q = Concat<axis = 0>(y, y) "
      "}> }");
  const auto outputs = [&] {
    const Inference inference(model);
    std::vector<std::string> out;
    for (const Value* v : model.graph->outputs()) out.push_back(test::describe(inference, v));
    return out;
  };
  const auto first = outputs();
  EXPECT_EQ(first, (std::vector<std::string>{"float(?0,64)", "float(?0,8)", "float(?2,8)"}));
  EXPECT_EQ(outputs(), first);
}

#ifdef NDEBUG  // not with sanitizers
TEST(InferSpeed, LargeModelsTakeLessThanHalfASecond) {
  Model model = parse_graph("g (float[b,n,512] x) => (y) <float[512,512] w> { y = Identity(x) }");
  Graph& graph = *model.graph;
  Value* x = graph.inputs()[0];
  Value* w = graph.add_constant(Tensor::allocate(DataType::kFloat, {512, 512}));
  Value* axis = graph.add_constant(Tensor::from<int64_t>({1}, {0}));
  Value* index = graph.add_constant(Tensor::scalar<int64_t>(0));
  Value* rest = graph.add_constant(Tensor::from<int64_t>({3}, {-1, 8, 64}));
  Value* full = graph.add_constant(Tensor::from<int64_t>({3}, {0, 0, 512}));
  for (int layer = 0; layer < 500; ++layer) {
    const auto op = [&](const char* type, std::vector<Value*> inputs, Attributes attributes = {}) {
      return graph.add_node("", type, std::move(inputs), 1, std::move(attributes))->output();
    };
    Value* shape = op("Shape", {x});
    Value* batch = op("Unsqueeze", {op("Gather", {shape, index}), axis});
    Value* target = op("Concat", {batch, rest}, {{"axis", int64_t{0}}});
    Value* heads =
        op("Transpose", {op("Reshape", {op("MatMul", {x, w}), target})}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
    Value* back = op("Reshape", {op("Transpose", {heads}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}}), full});
    x = op("Add", {x, back});
  }
  graph.set_output(0, x);
  const std::clock_t begin = std::clock();
  const Inference inference(model);
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  EXPECT_EQ(x->type().to_string(), "float(b,n,512)");
  EXPECT_LT(seconds, 0.5);
  RecordProperty("seconds", std::to_string(seconds));
}
#endif

}  // namespace
}  // namespace attune
