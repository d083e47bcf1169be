#include "graph/graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "graph/io/text.h"
#include "tests/support/error_matchers.h"

namespace attune {
namespace {

using test::IsError;
using test::thrown;
using Kind = Error::Kind;

ValueType floats() { return ValueType::of(DataType::kFloat, Dims{Dim::symbol("n")}); }

std::string order(const Graph& g) {
  std::string out;
  for (const auto& n : g.nodes()) out += n->type() + " ";
  return out;
}

// x -> A -> B -> C (output), with w used by A and C.
struct Chain {
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  Value* x = graph->add_input("x", floats());
  Value* w = graph->add_constant(Tensor::scalar(2.0f), "w");
  Node* a = graph->add_node("", "A", {x, w});
  Node* b = graph->add_node("ai.onnx", "B", {a->output()});
  Node* c = graph->add_node("other", "C", {b->output(), w, w});
  Chain() {
    c->output()->set_name("y");
    graph->add_output(c->output());
  }
};

TEST(Graph, UsesFollowInputs) {
  Chain g;
  EXPECT_EQ(g.w->uses().size(), 3u);
  EXPECT_EQ(g.b->domain(), "");
  g.c->set_input(2, nullptr);
  EXPECT_EQ(g.w->uses().size(), 2u);
  g.c->trim_inputs();
  EXPECT_EQ(g.c->inputs().size(), 2u);
  g.c->set_input(4, g.x);
  EXPECT_EQ(g.c->inputs().size(), 5u);
  EXPECT_EQ(g.c->input(3), nullptr);
  EXPECT_EQ(g.x->uses().size(), 2u);
  g.graph->verify();
}

TEST(Graph, OutputsWithHoles) {
  Graph g;
  Node* n = g.add_node("", "Three", {}, 3);
  n->remove_output(1);
  EXPECT_EQ(n->output_count(), 3u);
  EXPECT_EQ(n->output(1), nullptr);
  n->remove_output(2);
  EXPECT_EQ(n->output_count(), 1u);
  EXPECT_EQ(n->add_output("again")->output_index(), 1u);
  g.add_output(n->output(0));
  EXPECT_THAT(thrown([&] { n->remove_output(0); }), IsError(Kind::kInternal, "in use"));
}

TEST(Graph, ReplaceAllUsesOfAnInnerValue) {
  Chain g;
  Node* d = g.graph->add_node("", "D", {g.x});
  g.graph->replace_all_uses(g.b->output(), d->output());
  EXPECT_TRUE(g.b->output()->uses().empty());
  EXPECT_EQ(g.c->input(0), d->output());
  g.graph->verify();
}

TEST(Graph, ReplaceAllUsesOfAnOutputKeepsItsName) {
  Chain g;
  Node* d = g.graph->add_node("", "D", {g.b->output()});
  g.graph->replace_all_uses(g.c->output(), d->output());
  EXPECT_EQ(g.graph->outputs()[0], d->output());
  EXPECT_EQ(d->output()->name(), "y");
  EXPECT_EQ(g.c->output()->name(), "");
  EXPECT_EQ(g.graph->erase_unused(), 1u);
  g.graph->verify();
}

TEST(Graph, ReplaceAnOutputByWhatCannotTakeItsName) {
  // An input, a constant, and a value that is an output already: an Identity takes the name.
  for (const int which : {0, 1, 2}) {
    Chain g;
    Node* d = g.graph->add_node("", "D", {g.x});
    d->output()->set_name("second");
    g.graph->add_output(d->output());
    Value* to = which == 0 ? g.x : which == 1 ? g.w : d->output();
    g.graph->replace_all_uses(g.c->output(), to);
    Value* out = g.graph->outputs()[0];
    EXPECT_EQ(out->name(), "y");
    ASSERT_NE(out->producer(), nullptr);
    EXPECT_TRUE(out->producer()->is("Identity"));
    EXPECT_EQ(out->producer()->input(0), to);
    EXPECT_EQ(g.graph->outputs()[1]->name(), "second");
    g.graph->verify();
  }
}

TEST(Graph, EraseUnused) {
  Chain g;
  Node* d = g.graph->add_node("", "D", {g.a->output()});
  Node* e = g.graph->add_node("", "E", {d->output(), g.graph->add_constant(Tensor::scalar(1.0f))});
  EXPECT_EQ(g.graph->erase_unused(), 2u);
  EXPECT_EQ(order(*g.graph), "A B C ");
  EXPECT_EQ(g.graph->constants().size(), 1u);
  EXPECT_EQ(g.graph->inputs().size(), 1u);
  EXPECT_THAT(thrown([&] { g.graph->erase(g.b); }), IsError(Kind::kInternal, "in use"));
  EXPECT_THAT(thrown([&] { g.graph->erase_constant(g.w); }), IsError(Kind::kInternal, "in use"));
  EXPECT_THAT(thrown([&] { g.graph->remove_input(g.x); }), IsError(Kind::kInternal, "in use"));
  (void)e;
}

constexpr const char* kNested = R"(
  <ir_version: 8, opset_import: ["" : 17]>
  main (bool c, float[n] x) => (float[n] y) <float[1] w = {1}> {
    a = Neg(x)
    unused = Abs(a)
    y = If (c) <
      then_branch = t () => (float[n] r) {
        p = Add(a, w)
        q = Mul(p, w)
        r = If (c) <then_branch = tt () => (float[n] s) { s = Sub(p, x) },
                    else_branch = te () => (float[n] v) { v = Exp(a) }>
      },
      else_branch = e () => (float[n] z) { z = Sqrt(x) }>
  })";

TEST(Graph, EraseUnusedInBodies) {
  Model m = parse_model(kNested);
  // Abs, and in the body Mul; w stays for Add.
  EXPECT_EQ(m.graph->erase_unused(), 2u);
  EXPECT_EQ(m.graph->constants().size(), 1u);
  m.graph->verify();
  // When the inner use of a goes, Neg goes in the end.
  Graph& then = *m.graph->nodes().back()->subgraphs()[1];
  ASSERT_EQ(then.name, "t");
  Node* inner_if = then.nodes().back().get();
  Node* replacement = then.add_node("", "Cos", {m.graph->inputs()[1]});
  then.replace_all_uses(inner_if->output(), replacement->output());
  m.graph->erase_unused();
  EXPECT_EQ(order(*m.graph), "If ");
  EXPECT_EQ(order(then), "Cos ");
  EXPECT_TRUE(m.graph->constants().empty());
  m.graph->verify();
}

TEST(Graph, CapturedValues) {
  const Model m = parse_model(kNested);
  const Node& node = *m.graph->nodes().back();
  std::vector<std::string> names;
  for (const Value* v : node.subgraphs()[1]->captured()) names.emplace_back(v->name());
  EXPECT_EQ(names, (std::vector<std::string>{"a", "w", "c", "x"}));
  size_t count = 0;
  m.graph->for_each_node([&](Node&) { ++count; });
  EXPECT_EQ(count, 9u);
}

TEST(Graph, TopologicalOrderIsStable) {
  Graph g;
  Value* x = g.add_input("x", floats());
  // Independent nodes keep their order; a user that comes too early waits for its producer.
  Node* first = g.add_node("", "First", {x});
  Node* late = g.add_node("", "Late", {x});
  Node* second = g.add_node("", "Second", {x});
  Node* producer = g.add_node("", "Producer", {x});
  late->set_input(0, producer->output());
  g.sort();
  EXPECT_EQ(order(g), "First Producer Late Second ");
  g.sort();
  EXPECT_EQ(order(g), "First Producer Late Second ");
  (void)first;
  (void)second;
}

TEST(Graph, TopologicalOrderOfRandomGraphs) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    Graph g;
    Value* x = g.add_input("x", floats());
    std::vector<Node*> nodes;
    for (int i = 0; i < 40; ++i) nodes.push_back(g.add_node("", "N" + std::to_string(i), {x, x, x}));
    std::shuffle(nodes.begin(), nodes.end(), random);
    for (size_t i = 1; i < nodes.size(); ++i)
      for (size_t k = 0; k < 3; ++k)
        if (random() % 2) nodes[i]->set_input(k, nodes[random() % i]->output());
    const auto sorted = g.topological_order();
    ASSERT_EQ(sorted.size(), nodes.size());
    std::set<const Value*> ready{x};
    for (const Node* n : sorted) {
      for (const Value* v : n->inputs()) EXPECT_TRUE(ready.contains(v));
      ready.insert(n->output());
    }
  }
}

TEST(Graph, CyclesAreNamed) {
  Chain g;
  g.a->set_input(1, g.c->output());
  g.a->name = "first";
  const Error e = thrown([&] { g.graph->topological_order(); });
  EXPECT_THAT(e, IsError(Kind::kInvalidModel, "cycle"));
  EXPECT_THAT(e, IsError(Kind::kInvalidModel, "node 'first' (A)"));
  EXPECT_THAT(thrown([&] { g.graph->verify(); }), IsError(Kind::kInvalidModel, "cycle"));
}

TEST(Graph, ABodyThatTakesItsOwnNodesOutputIsACycle) {
  Graph g;
  Node* n = g.add_node("", "If", {});
  auto body = std::make_shared<Graph>();
  body->add_output(body->add_node("", "Neg", {n->output()})->output());
  Graph::attach(body, n, "then_branch");
  EXPECT_THAT(thrown([&] { g.topological_order(); }), IsError(Kind::kInvalidModel, "cycle"));
}

TEST(Graph, LongChainsNeedNoStack) {
  Graph g;
  Value* v = g.add_input("x", floats());
  std::vector<Node*> nodes;
  for (int i = 0; i < 200000; ++i) {
    nodes.push_back(g.add_node("", "N", {v}));
    v = nodes.back()->output();
  }
  g.add_output(v);
  EXPECT_EQ(g.topological_order().size(), nodes.size());
  g.verify();
}

TEST(Graph, VerifyFindsWhatIsWrong) {
  Chain g;
  g.b->output()->set_name("w");
  EXPECT_THAT(thrown([&] { g.graph->verify(); }), IsError(Kind::kInvalidModel, "two values are named 'w'"));
  g.b->output()->set_name("");
  Graph other;
  g.b->set_input(0, other.add_input("elsewhere", floats()));
  EXPECT_THAT(thrown([&] { g.graph->verify(); }), IsError(Kind::kInvalidModel, "input 0 ('elsewhere') isn't visible"));
  g.b->set_input(0, g.x);
  g.graph->add_output(other.inputs()[0]);
  EXPECT_THAT(thrown([&] { g.graph->verify(); }), IsError(Kind::kInvalidModel, "output 1 isn't a value of the graph"));
}

TEST(Graph, CloneIsDeepAndSharesTensors) {
  Model m = parse_model(kNested);
  std::unordered_map<const Value*, Value*> map;
  const auto copy = m.graph->clone(&map);
  copy->verify();
  const auto original = std::exchange(m.graph, copy);
  const std::string text = to_text(m);
  m.graph = original;
  EXPECT_EQ(to_text(m), text);
  // Nothing in the copy leads back: values of bodies are the copy's too.
  std::set<const Value*> old;
  for (const auto& [from, to] : map) old.insert(from);
  copy->for_each_node([&](Node& n) {
    for (const Value* v : n.inputs()) EXPECT_FALSE(old.contains(v)) << n.label();
  });
  EXPECT_EQ(copy->constants().front()->constant()->raw(), original->constants().front()->constant()->raw());
  EXPECT_EQ(map.at(original->inputs()[1]), copy->inputs()[1]);
}

TEST(Graph, CloneOfABodyKeepsWhatItCaptured) {
  const Model m = parse_model(kNested);
  const Node& node = *m.graph->nodes().back();
  const Graph& body = *node.subgraphs()[1];
  const size_t uses = m.graph->inputs()[1]->uses().size();
  {
    const auto copy = body.clone();
    EXPECT_EQ(copy->captured(), body.captured());
    EXPECT_GT(m.graph->inputs()[1]->uses().size(), uses);
  }
  EXPECT_EQ(m.graph->inputs()[1]->uses().size(), uses);  // it let go of them
}

TEST(Graph, AssignNames) {
  Chain g;
  g.b->output()->set_name("w");  // as the constant
  g.a->output()->set_name("y");  // as the output, which keeps its name
  auto body = std::make_shared<Graph>();
  Node* inner = body->add_node("", "Neg", {g.x});
  inner->output()->set_name("x");  // as what the body takes from outside
  body->add_output(inner->output());
  Node* n = g.graph->add_node("", "If", {});
  Graph::attach(body, n, "then_branch");
  g.graph->assign_names();
  std::set<std::string> names;
  for (const auto& node : g.graph->nodes()) {
    EXPECT_FALSE(node->name.empty());
    EXPECT_TRUE(names.emplace(node->output()->name()).second) << node->output()->name();
  }
  EXPECT_TRUE(names.emplace(g.x->name()).second && names.emplace(g.w->name()).second);
  EXPECT_EQ(g.c->output()->name(), "y");
  EXPECT_EQ(g.x->name(), "x");
  EXPECT_NE(inner->output()->name(), "x");
  g.graph->verify();
}

TEST(Graph, Attributes) {
  Graph g;
  Node* n = g.add_node("", "Op", {}, 1,
                       {{"i", int64_t{3}}, {"f", 1.5f}, {"s", std::string("text")}, {"l", std::vector<int64_t>{1, 2}}});
  EXPECT_EQ(n->attr_int("i", 0), 3);
  EXPECT_EQ(n->attr_int("none", 9), 9);
  EXPECT_EQ(n->attr_float("f", 0), 1.5f);
  EXPECT_EQ(n->attr_string("s", ""), "text");
  EXPECT_EQ(n->attr_ints("l"), (std::vector<int64_t>{1, 2}));
  EXPECT_THAT(thrown([&] { n->attr_int("f", 0); }), IsError(Kind::kInvalidModel, "attribute 'f' is not an integer"));
  EXPECT_EQ(n->label(), "a node (Op)");
  n->output()->set_name("out");
  EXPECT_EQ(n->label(), "node of 'out' (Op)");
  n->name = "name";
  EXPECT_EQ(n->label(), "node 'name' (Op)");
}

}  // namespace
}  // namespace attune
