// Bisection: each prefix of the rewrites gives a model that computes the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "graph/io/reader.h"
#include "runtime/session.h"
#include "tests/support/explained.h"
#include "tests/support/model_files.h"
#include "tests/support/recorded.h"

namespace attune {
namespace {

namespace fs = std::filesystem;

using test::Converted;
using test::SpoiledAttention;

void expect_each_prefix_to_verify(const std::string& text) {
  const Model source = parse_model(text);
  const size_t all = Converted(text).report.rewrites.size();
  ASSERT_GT(all, 4U);
  for (size_t n = 0; n <= all; ++n) {
    Model model = parse_model(text);
    Report report;
    PassOptions options;
    options.max_rewrites = static_cast<int64_t>(n);
    optimize(model, report, options);
    model.graph->verify();
    EXPECT_EQ(report.rewrites.size(), n);
    EXPECT_TRUE(verify(source, model).passed()) << n;
  }
}

TEST(MaxRewrites, OfPlainAttention) { expect_each_prefix_to_verify(SpoiledAttention().text()); }
TEST(MaxRewrites, OfGroupedHeads) { expect_each_prefix_to_verify(SpoiledAttention::grouped().text()); }
TEST(MaxRewrites, OfPackedProjections) { expect_each_prefix_to_verify(SpoiledAttention::packed().text()); }
TEST(MaxRewrites, InABody) { expect_each_prefix_to_verify(SpoiledAttention().text_in_loop()); }

TEST(MaxRewrites, CountNormalisingFormsAndSizesToo) {
  // Where(not c) is turned around before the softmax is fused; a second name for the batch goes.
  const std::string text = R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[N,2,S,8] q, float[M,2,8,T] k, float[M,2,T,8] v, bool[N,1,1,T] seen, float[N,M] w) => (float[N,2,S,8] y)
    <float filler = {-inf}> {
      hidden = Not (seen)
      scores = MatMul (q, k)
      not_hidden = Not (hidden)
      masked = Where (not_hidden, scores, filler)
      weights = Softmax <axis = -1> (masked)
      y = MatMul (weights, v)
    })";
  for (int64_t n = 0; n < 2; ++n) {
    Model model = parse_model(text);
    Report report;
    PassOptions options;
    options.max_rewrites = n;
    optimize(model, report, options);
    ASSERT_EQ(report.rewrites.size(), static_cast<size_t>(n));
    bool softmax = false;
    model.graph->for_each_node([&](const Node& node) { softmax = softmax || node.is("Softmax"); });
    EXPECT_TRUE(softmax) << "the fusion is the second rewrite";
    if (n == 1) {
      EXPECT_EQ(report.rewrites[0].rule, "normalize_condition");
    }
  }
}

TEST(MaxRewrites, CountTheAxisOfASoftmax) {
  for (int64_t n = 0; n < 2; ++n) {
    Model model = parse_model(R"(<ir_version: 8, opset_import: ["" : 17]>
      g (float[N,4] x) => (float[N,4] y) { y = Softmax (x) })");
    Report report;
    PassOptions options;
    options.max_rewrites = n;
    optimize(model, report, options);
    EXPECT_EQ(model.graph->outputs()[0]->producer()->has("axis"), n == 1);
  }
}

// ---- models of exporters: valid after each rewrite, with the recorded outputs

std::vector<std::string> models() {
  std::vector<std::string> out;
  for (const fs::path& file : test::model_files(test::recorded_models()))
    if (!test::recorded_files(test::recorded_models() / file).empty()) out.push_back(file.string());
  for (const auto& entry : fs::directory_iterator(fs::path(ATTUNE_SOURCE_DIR) / "tests/passes/fused_operators"))
    if (entry.path().extension() == ".onnx")
      out.push_back("../passes/fused_operators/" + entry.path().filename().string());
  std::sort(out.begin(), out.end());
  return out;
}

class MaxRewritesOf : public testing::TestWithParam<std::string> {};

TEST_P(MaxRewritesOf, EachPrefixGivesTheRecordedOutputs) {
  const fs::path file = test::recorded_models() / GetParam();
  const auto recorded = test::read_recorded(test::recorded_files(file).at(0));
  size_t all = 1;
  for (size_t n = 0; n <= all; ++n) {
    SCOPED_TRACE(n);
    Model model = read_model(file);
    Report report;
    PassOptions options;
    options.max_rewrites = n == 0 ? -1 : static_cast<int64_t>(n - 1);  // all of them first
    optimize(model, report, options);
    model.graph->verify();
    if (n == 0) {
      all = report.rewrites.size();
    } else {
      ASSERT_EQ(report.rewrites.size(), n - 1);
    }
    const TensorMap outputs = Session(Plan::compile(model)).run(recorded.inputs);
    for (const auto& [name, expected] : recorded.outputs)
      ASSERT_LE(test::relative_difference(outputs.at(name).tensor(), expected), test::tolerance(file))
          << name
          << (report.rewrites.empty() ? "" : report.rewrites.back().rule + " at " + report.rewrites.back().node);
  }
}

INSTANTIATE_TEST_SUITE_P(, MaxRewritesOf, testing::ValuesIn(models()),
                         [](const auto& info) { return test::test_name(info.param); });

}  // namespace
}  // namespace attune
