// Raising attention operators of other domains to ours, and lowering ours, on one-node models that ONNX Runtime
// recorded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/io/reader.h"
#include "graph/io/text.h"
#include "passes/attention_conversions.h"
#include "runtime/plan.h"
#include "runtime/session.h"
#include "tests/support/recorded.h"

namespace attune {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

fs::path folder() { return fs::path(ATTUNE_SOURCE_DIR) / "tests/passes/fused_operators"; }

std::vector<std::string> models() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder()))
    if (entry.path().extension() == ".onnx") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

size_t apply(size_t (*pass)(PassContext&), Model& model, Report& report) {
  const PassOptions options;
  PassContext context{model, report, options};
  return pass(context);
}

size_t count_domain(const Model& model, std::string_view domain) {
  size_t count = 0;
  model.graph->for_each_node([&](const Node& n) { count += n.domain() == domain ? 1 : 0; });
  return count;
}

class FusedOperator : public testing::TestWithParam<std::string> {
 protected:
  void expect_recorded(const Model& model) const {
    const fs::path file = folder() / (GetParam() + ".onnx");
    Session session(Plan::compile(model));
    const auto cases = test::recorded_files(file);
    ASSERT_FALSE(cases.empty());
    for (const auto& recorded_file : cases) {
      const auto recorded = test::read_recorded(recorded_file);
      const TensorMap outputs = session.run(recorded.inputs);
      for (const auto& [name, expected] : recorded.outputs)
        EXPECT_LT(test::relative_difference(outputs.at(name).tensor(), expected), 1e-5) << name;
    }
  }
};

TEST_P(FusedOperator, BecomesOursAndStandardAgain) {
  Model model = read_model(folder() / (GetParam() + ".onnx"));
  Report report;
  EXPECT_EQ(apply(raise_attention, model, report), 1U);
  EXPECT_THAT(report.near_misses, testing::IsEmpty());
  EXPECT_EQ(count_domain(model, "ai.attune"), 1U);
  EXPECT_EQ(count_domain(model, "com.microsoft"), 0U);
  model.graph->verify();
  expect_recorded(model);
  EXPECT_EQ(apply(lower_attention, model, report), 1U);
  EXPECT_EQ(count_domain(model, "ai.attune"), 0U);
  EXPECT_FALSE(model.opset_imports.contains("ai.attune"));
  model.graph->verify();
  expect_recorded(model);
}

INSTANTIATE_TEST_SUITE_P(Recorded, FusedOperator, testing::ValuesIn(models()),
                         [](const auto& info) { return info.param; });

// Why the only attention of a model isn't raised; empty if it is.
std::string refusal(const std::string& text) {
  Model model = parse_model(text);
  Report report;
  apply(raise_attention, model, report);
  return report.near_misses.empty() ? "" : report.near_misses[0].reason;
}

std::string standard(const std::string& mask, const std::string& attributes, const std::string& type = "float") {
  return "<ir_version: 10, opset_import: [\"\" : 23]> g (" + type + "[B,2,T,4] q, " + type + "[B,2,S,4] k, " + type +
         "[B,2,S,4] v, " + mask + "[T,S] m) => (" + type + "[B,2,T,4] y) { y = Attention" + attributes +
         " (q, k, v, m) }";
}

std::string microsoft(const std::string& node) {
  return "<ir_version: 10, opset_import: [\"\" : 17, \"com.microsoft\" : 1]> g (float[B,T,8] q, float[B,S,8] k, "
         "float[B,S,8] v, "
         "int32[B] n, int32 total) => (float[B,T,8] y) { " +
         node + " }";
}

// The report, and users, find the attention by the name of what it was, whatever else was made beside it.
TEST(RaiseAttention, NamesTheAttentionAlone) {
  Model model = read_model(folder() / "mha_cross_lens.onnx");
  model.graph->for_each_node([](Node& n) { n.name = n.domain() == "com.microsoft" ? "first" : ""; });
  Report report;
  ASSERT_EQ(apply(raise_attention, model, report), 1U);
  std::vector<std::string> named;
  model.graph->for_each_node([&](const Node& n) {
    if (n.name == "first") named.push_back(n.type());
  });
  EXPECT_THAT(named, testing::ElementsAre("Attention"));
}

TEST(RaiseAttention, SaysWhatItRefuses) {
  EXPECT_EQ(refusal(standard("bool", "")), "");
  EXPECT_THAT(refusal(standard("int64", "")), HasSubstr("attn_mask is an integer tensor"));
  EXPECT_THAT(refusal(standard("bool", "<scale = -0.5>")), HasSubstr("scale is negative"));
  EXPECT_THAT(refusal(standard("bool", "<softmax_precision = 11>")),
              HasSubstr("softmax_precision double with float operands"));
  EXPECT_EQ(refusal(standard("bool", "<softmax_precision = 1>", "float16")), "");
  EXPECT_EQ(refusal(microsoft("y = com.microsoft.MultiHeadAttention <num_heads = 2> (q, k, v)")), "");
  EXPECT_THAT(refusal(microsoft("y = com.microsoft.MultiHeadAttention (q, k, v)")),
              HasSubstr("num_heads isn't positive"));
  const auto grouped = [](const std::string& attributes) {
    return refusal(microsoft("y = com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 2" + attributes +
                             "> (q, k, v, , , n, total)"));
  };
  EXPECT_EQ(grouped(""), "");
  EXPECT_THAT(grouped(", do_rotary = 1"), HasSubstr("without their caches"));
  EXPECT_THAT(grouped(", sliding_window_cache = 1"), HasSubstr("a cache of the window's size"));
  EXPECT_THAT(grouped(", kv_cache_bit_width = 8"), HasSubstr("quantised"));
}

}  // namespace
}  // namespace attune
