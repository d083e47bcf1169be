// Every attention of real exporters' models becomes one node, with the projections that the manifest counts inside.
// The models are those of tests/models, or of the folder that ATTUNE_ZOO names.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "graph/io/reader.h"
#include "passes/attention_node.h"
#include "passes/pass.h"
#include "tests/support/model_files.h"

namespace attune {
namespace {

namespace fs = std::filesystem;

struct Entry {
  std::string file;
  bool quantized = false;
  size_t attentions = 0, query_projections = 0, key_projections = 0, value_projections = 0;
};

std::vector<Entry> manifest() {
  std::ifstream in(test::zoo() / "manifest.tsv");
  std::vector<Entry> entries;
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) {
    std::istringstream fields(line);
    std::vector<std::string> f;
    for (std::string field; std::getline(fields, field, '\t');) f.push_back(field);
    if (f.size() < 11 || !fs::exists(test::zoo() / f[0])) continue;
    entries.push_back({f[0], f[0].find("int8") != std::string::npos, std::stoul(f[4]), std::stoul(f[8]),
                       std::stoul(f[9]), std::stoul(f[10])});
  }
  return entries;
}

class ZooFusion : public testing::TestWithParam<Entry> {};

TEST_P(ZooFusion, FusesWhatTheManifestCounts) {
  const Entry& entry = GetParam();
  Model model = read_model(test::zoo() / entry.file);
  Report report;
  optimize(model, report);
  model.graph->verify();
  size_t attentions = 0, softmaxes = 0, query = 0, key = 0, value = 0;
  model.graph->for_each_node([&](const Node& n) {
    softmaxes += n.is("Softmax") ? 1 : 0;
    if (!is_attention(n)) return;
    ++attentions;
    query += n.input(kAttentionQueryWeight) ? 1 : 0;
    key += n.input(kAttentionKeyWeight) ? 1 : 0;
    value += n.input(kAttentionValueWeight) ? 1 : 0;
  });
  EXPECT_EQ(attentions, entry.attentions);
  EXPECT_EQ(softmaxes, 0U);
  if (!entry.quantized) {
    EXPECT_GE(query, entry.query_projections);
    EXPECT_GE(key, entry.key_projections);
    EXPECT_GE(value, entry.value_projections);
  }
  for (const NearMiss& miss : report.near_misses)
    ADD_FAILURE() << miss.rule << ": " << miss.anchor << ": " << miss.path << ": " << miss.value << ": " << miss.reason;
}

INSTANTIATE_TEST_SUITE_P(Zoo, ZooFusion, testing::ValuesIn(manifest()),
                         [](const auto& info) { return test::test_name(info.param.file); });

}  // namespace
}  // namespace attune
