// No fusion may make the models slower that it is for: of each case of a rule, the fused model takes no more nodes and
// moves no more bytes than the model before, also in a step with one position. What a node moves are its inputs,
// weights included, and outputs, so that a mask that is copied for each head, or a constant that is written out,
// counts.
#include <gtest/gtest.h>

#include "convert/sample_inputs.h"
#include "graph/io/text.h"
#include "runtime/profile.h"
#include "runtime/session.h"
#include "tests/support/pass_cases.h"

namespace attune {
namespace {

namespace fs = std::filesystem;

struct Cost {
  size_t nodes = 0;
  double bytes = 0;
};

// `keys_given_transposed`: what exporters transpose, and the cases of fuse_attention leave out; the rule transposes it
// back, which then is no work.
Cost cost_of(const Model& model, const TensorMap& inputs, bool keys_given_transposed) {
  Profile profile;
  Session(Plan::compile(model), {.threads = 1, .profile = &profile}).run(inputs);
  Cost cost;
  for (const ProfileEvent& e : profile.events()) {
    if (keys_given_transposed && e.op == "Transpose") continue;
    ++cost.nodes;
    cost.bytes += e.bytes;
  }
  return cost;
}

Model converted(const test::Case& c, bool fused) {
  Model model = parse_model(c.before);
  Report report;
  const PassOptions options;
  PassContext context{model, report, options};
  if (fused) test::run_pass(c.pass, context);
  for (size_t changes = 1; changes > 0;)
    changes = fold_constants(context) + eliminate_identities(context) + eliminate_common_subexpressions(context);
  eliminate_dead(context);
  model.graph->sort();
  model.opset_imports.try_emplace("ai.attune", 1);
  return model;
}

class FusionCost : public testing::TestWithParam<fs::path> {};

TEST_P(FusionCost, IsNotMoreThanThatOfItsParts) {
  const test::Case c = test::read_case(GetParam());
  const Model before = converted(c, false), after = converted(c, true);
  const auto inputs = sample_inputs(before);
  for (const bool step : {false, true}) {
    SampleChoice choice;
    int64_t size = 4;
    for (const std::string& symbol : sample_symbols(inputs)) choice.sizes[symbol] = ++size;
    if (step) choice.sizes["T"] = 1;  // the queries
    const TensorMap sample = make_sample(inputs, choice);
    const bool transposed = c.pass == "fuse_attention";
    const Cost parts = cost_of(before, sample, transposed), whole = cost_of(after, sample, transposed);
    // All layers share the comparison that makes a condition of a mask.
    EXPECT_LE(whole.nodes, parts.nodes + (c.pass == "simplify_masks" ? 1 : 0)) << step;
    EXPECT_LE(whole.bytes, parts.bytes) << step;
  }
}

std::vector<fs::path> fusions() {
  std::vector<fs::path> files;
  for (const fs::path& file : test::case_files())
    if (const test::Case c = test::read_case(file);
        !c.after.empty() && (c.pass.starts_with("fuse_") || c.pass == "simplify_masks"))
      files.push_back(file);
  return files;
}

INSTANTIATE_TEST_SUITE_P(Cases, FusionCost, testing::ValuesIn(fusions()), test::case_name);

}  // namespace
}  // namespace attune
