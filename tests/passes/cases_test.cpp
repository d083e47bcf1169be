// One text file per case, cases/PASS/NAME.txt: a model `before`, and either the model `after` the pass, or
// `no match: part: reason`, or `no match`, or nothing. Both models are compared node by node, and by what they compute;
// where nothing is said, by what they compute alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <unordered_map>

#include "convert/verify.h"
#include "graph/io/text.h"
#include "passes/passes.h"
#include "tests/support/pass_cases.h"

namespace attune {
namespace {

namespace fs = std::filesystem;

using test::Case;

// Compares graphs from their outputs backwards.
class Isomorphism {
 public:
  static std::string difference(const Graph& found, const Graph& expected) {
    if (found.outputs().size() != expected.outputs().size()) return "another number of outputs";
    Isomorphism comparison;
    for (size_t i = 0; i < found.outputs().size(); ++i)
      if (std::string d = comparison.compare(found.outputs()[i], expected.outputs()[i]); !d.empty()) return d;
    return {};
  }

 private:
  std::string compare(const Value* a, const Value* b) {
    if (!a || !b) return a == b ? "" : "an input is left out on one side only";
    const auto [it, added] = matched_.emplace(a, b);
    if (!added) return it->second == b ? "" : fmt_value(a) + " stands for two values";
    if (const Tensor* x = a->constant()) return constants(*x, b->constant(), a);
    if (a->is_graph_input() || b->is_graph_input())
      return a->name() == b->name() ? "" : "found " + fmt_value(a) + ", expected " + fmt_value(b);
    const Node *m = a->producer(), *n = b->producer();
    if (!m || !n || !m->is(n->type(), n->domain()) || a->output_index() != b->output_index())
      return "found " + fmt_value(a) + ", expected " + fmt_value(b);
    if (std::string d = attributes(*m, *n); !d.empty()) return d;
    for (size_t i = 0; i < std::max(m->inputs().size(), n->inputs().size()); ++i)
      if (std::string d = compare(m->input(i), n->input(i)); !d.empty()) return d;
    return {};
  }

  static std::string constants(const Tensor& x, const Tensor* y, const Value* v) {
    if (!y || x.type() != y->type() || !(x.shape() == y->shape())) return fmt_value(v) + " is another constant";
    if (x.type() == DataType::kString) return x.strings() == y->strings() ? "" : fmt_value(v) + " is another constant";
    const auto a = x.to_contiguous().to_double(), b = y->to_contiguous().to_double();
    for (size_t i = 0; i < a.size(); ++i)
      if (a[i] != b[i] && !(std::abs(a[i] - b[i]) < 1e-6)) return fmt_value(v) + " is another constant";
    return {};
  }

  static std::string attributes(const Node& m, const Node& n) {
    for (const auto& [name, value] : n.attributes())
      if (!m.has(name) || !same(m.attributes().at(name), value)) return m.label() + ": attribute " + name + " differs";
    for (const auto& [name, value] : m.attributes())
      if (!n.has(name)) return m.label() + ": attribute " + name + " is not expected";
    return {};
  }

  static bool same(const Attribute& a, const Attribute& b) {
    if (a.index() != b.index()) return false;
    if (const auto* x = std::get_if<int64_t>(&a)) return *x == std::get<int64_t>(b);
    if (const auto* x = std::get_if<float>(&a)) return std::abs(*x - std::get<float>(b)) <= 1e-6F * std::abs(*x);
    if (const auto* x = std::get_if<std::string>(&a)) return *x == std::get<std::string>(b);
    if (const auto* x = std::get_if<std::vector<int64_t>>(&a)) return *x == std::get<std::vector<int64_t>>(b);
    return true;
  }

  static std::string fmt_value(const Value* v) {
    if (v->producer()) return v->producer()->label() + " '" + std::string(v->name()) + "'";
    return "'" + std::string(v->name()) + "'";
  }

  std::unordered_map<const Value*, const Value*> matched_;
};

class PassCase : public testing::TestWithParam<fs::path> {};

TEST_P(PassCase, Rewrites) {
  const Case c = test::read_case(GetParam());
  const Model source = parse_model(c.before);
  Model model = parse_model(c.before);
  Report report;
  const PassOptions options;
  std::vector<NearMiss> misses;
  PassContext context{model, report, options, &misses};
  const size_t changes = test::run_pass(c.pass, context);
  model.graph->sort();
  model.graph->verify();
  EXPECT_THAT(report.endless_rules, testing::IsEmpty());
  if (!c.matches) {
    EXPECT_EQ(changes, 0U) << to_text(model);
    if (c.no_match.empty()) return;
    std::vector<std::string> reasons;
    for (const NearMiss& miss : misses) reasons.push_back(miss.path + ": " + miss.reason);
    EXPECT_THAT(reasons, testing::Contains(c.no_match));
    return;
  }
  if (!c.after.empty()) {
    EXPECT_GT(changes, 0U);
    EXPECT_EQ(Isomorphism::difference(*model.graph, *parse_model(c.after).graph), "") << to_text(model);
  }
  model.opset_imports.try_emplace("ai.attune", 1);
  const Verification verification = verify(source, model);
  const bool runs = !c.after.empty() || verification.compared > 0;
  EXPECT_TRUE(!runs || verification.passed())
      << "differs by " << verification.largest_relative << " of the largest value";
}

INSTANTIATE_TEST_SUITE_P(Cases, PassCase, testing::ValuesIn(test::case_files()), test::case_name);

}  // namespace
}  // namespace attune
