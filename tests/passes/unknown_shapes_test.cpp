// Each operand of each case's nodes in turn gets a shape that inference can't know, though it is the same at run time:
// of unknown rank, or of unknown sizes. What a pass makes of it still computes the same. Where only sizes aren't known,
// it may rely on there being no broadcasting that exports don't have, if it says so at run time.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "convert/verify.h"
#include "graph/io/text.h"
#include "ops/infer/infer.h"
#include "tests/support/pass_cases.h"

namespace attune {
namespace {

namespace fs = std::filesystem;

enum class Unknown { kRank, kSizes };

Value* op(Graph& graph, const std::string& type, std::vector<Value*> inputs, Attributes attributes = {}) {
  return graph.add_node("", type, std::move(inputs), 1, std::move(attributes))->output();
}

// {0}, which only a run tells.
Value* zero_at_run_time(Graph& graph) {
  const auto integers = [&](int64_t n) { return graph.add_constant(Tensor::from<int64_t>(Shape{1}, {n})); };
  Value* number = op(graph, "Cast", {graph.inputs()[0]}, {{"to", static_cast<int64_t>(DataType::kFloat)}});
  Value* first = op(graph, "Slice", {op(graph, "Reshape", {number, integers(-1)}), integers(0), integers(1)});
  Value* less = op(graph, "Less", {op(graph, "Abs", {first}), graph.add_constant(Tensor::scalar(-1.0F))});
  return op(graph, "Cast", {less}, {{"to", static_cast<int64_t>(DataType::kInt64)}});
}

// The same value.
Value* hidden(Graph& graph, Value* v, Unknown what) {
  Value* zero = zero_at_run_time(graph);
  const auto hide = [&](Value* integers) {
    if (what == Unknown::kSizes) return op(graph, "Add", {integers, zero});
    return op(graph, "Slice", {integers, zero, graph.add_constant(Tensor::from<int64_t>(Shape{1}, {99}))});
  };
  if (v->element_type() == DataType::kInt64 && v->tensor_type().rank() == 1) return hide(v);
  return op(graph, "Reshape", {v, hide(op(graph, "Shape", {v}))});
}

bool runs(const Model& model) {
  try {
    return verify(model, model).compared > 0;
  } catch (const Error&) {
    return false;
  }
}

class UnknownShapes : public testing::TestWithParam<fs::path> {
 protected:
  // The case with `operand` of its node number `node` hidden; false if there is none.
  bool hide(Model& model, size_t node, size_t operand, Unknown what) const {
    Graph& graph = *model.graph;
    const Node* at = nullptr;
    size_t i = 0;
    for (const auto& n : graph.nodes())
      if (i++ == node) at = n.get();
    Value* v = at->input(operand);
    if (!v || v->type().kind != ValueType::Kind::kTensor || graph.inputs().empty()) return false;
    const_cast<Node*>(at)->set_input(operand, hidden(graph, v, what));
    graph.sort();
    return true;
  }
};

TEST_P(UnknownShapes, AreNotGuessed) {
  const test::Case c = test::read_case(GetParam());
  const Model model = parse_model(c.before);
  const auto& nodes = model.graph->nodes();
  size_t number = 0;
  for (const auto& n : nodes) {
    for (size_t operand = 0; operand < n->inputs().size(); ++operand)
      for (const Unknown what : {Unknown::kRank, Unknown::kSizes}) {
        Model source = parse_model(c.before);
        const Inference inference(source);
        if (!hide(source, number, operand, what)) continue;
        SCOPED_TRACE(
            fmt::format("{} of input {} of {}", what == Unknown::kRank ? "rank" : "sizes", operand, n->label()));
        Model result = source;
        result.graph = source.graph->clone();
        Report report;
        const PassOptions options;
        std::vector<NearMiss> misses;
        PassContext context{result, report, options, &misses};
        bool rewritten = false;
        try {
          if (test::run_pass(c.pass, context) == 0) continue;
          rewritten = true;
          result.opset_imports.try_emplace("ai.attune", 1);
          result.graph->sort();
          const Verification verification = verify(source, result);
          const auto draws = [&] { return !verify(source, source).passed(); };  // it differs from itself
          EXPECT_TRUE(verification.passed() || verification.compared == 0 || draws()) << verification.largest_relative;
        } catch (const Error& e) {
          const bool rank_is_known = what == Unknown::kSizes || n->is("Einsum");
          if (!rewritten || (!rank_is_known && runs(source))) ADD_FAILURE() << e.what();
        }
      }
    ++number;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, UnknownShapes, testing::ValuesIn(test::case_files()), test::case_name);

}  // namespace
}  // namespace attune
