// Calls of a model's functions become nodes: all of them, and no more than the file explains.
#include "graph/inline.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph/io/text.h"
#include "tests/support/error_matchers.h"

namespace attune {
namespace {

using test::IsError;
using test::thrown;
using Kind = Error::Kind;

constexpr const char* kFunctionHeader = "<domain: \"f\", opset_import: [\"\" : 18, \"f\" : 1]>";

// x goes through a chain of functions, each of which calls the next one twice.
Model doubling(int functions) {
  std::string text =
      "<ir_version: 10, opset_import: [\"\" : 18, \"f\" : 1]> g (float[n] x) => (float[n] y) { y = f.F0(x) }";
  for (int i = 0; i < functions; ++i) {
    const std::string next = i + 1 < functions ? fmt::format("f.F{}", i + 1) : "Relu";
    text += fmt::format(" {} F{} (x) => (y) {{ t = {} (x) y = {} (t) }}", kFunctionHeader, i, next, next);
  }
  return parse_model(text);
}

size_t count(const Graph& graph) {
  size_t nodes = 0;
  graph.for_each_node([&](Node&) { ++nodes; });
  return nodes;
}

TEST(InlineCalls, OfCalls) {
  const Model model = doubling(12);
  EXPECT_EQ(inline_calls(*model.graph, model), 4095U);  // 1 + 2 + ... + 2^11
  model.graph->verify();
  EXPECT_EQ(count(*model.graph), 4096U);
  for (const auto& n : model.graph->nodes()) EXPECT_EQ(n->type(), "Relu");
}

TEST(InlineCalls, FewNodesThatBecomeVeryMany) {
  const Model model = doubling(40);
  EXPECT_THAT(thrown([&] { inline_calls(*model.graph, model); }), IsError(Kind::kLimit, "nodes"));
}

TEST(InlineCalls, WithoutEnd) {
  const Model model = parse_model(fmt::format(
      "<ir_version: 10, opset_import: [\"\" : 18, \"f\" : 1]> g (float[n] x) => (float[n] y) {{ y = f.A(x) }}"
      " {} A (x) => (y) {{ t = f.B(x) y = f.B(t) }} {} B (x) => (y) {{ t = f.A(x) y = f.A(t) }}",
      kFunctionHeader, kFunctionHeader));
  EXPECT_THAT(thrown([&] { inline_calls(*model.graph, model); }), IsError(Kind::kInvalidModel, "without end"));
}

TEST(InlineCalls, OfBodies) {
  const Model model = parse_model(fmt::format(
      R"(<ir_version: 10, opset_import: ["" : 18, "f" : 1]> g (bool c, float[n] x) => (float[n] y) {{ y = f.A(c, x) }}
      {} A (c, x) => (y) {{ y = If (c) <then_branch = t () => (r) {{ r = f.B(x) }}, else_branch = e () => (s) {{ s = Neg(x) }}> }}
      {} B (x) => (y) {{ t = Relu(x) y = Neg(t) }})",
      kFunctionHeader, kFunctionHeader));
  EXPECT_EQ(inline_calls(*model.graph, model), 2U);
  model.graph->verify();
  EXPECT_EQ(count(*model.graph), 4U);  // If, Relu, Neg; Neg
}

}  // namespace
}  // namespace attune
