// Beams of real exports with fused attentions: they share the memory of their source, and their caches aren't copied.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/io/reader.h"
#include "graph/io/writer.h"
#include "passes/pass.h"
#include "runtime/decoder.h"
#include "tests/support/recorded_generation.h"
#include "tests/support/temporary_folder.h"

namespace attune {
namespace {

namespace fs = std::filesystem;

const fs::path kModels = fs::path(ATTUNE_SOURCE_DIR) / "tests/models";

struct Layout {
  std::string folder;
  std::vector<std::string> decoders;
};

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all{{"marian/optimum_sdpa_op17", {"decoder_model", "decoder_with_past_model"}},
                                       {"marian/optimum_sdpa_op17", {"decoder_model_merged"}},
                                       {"marian/dynamo_sdpa_op23", {"decoder_model", "decoder_with_past_model"}}};
  return all;
}

Model fused(const fs::path& file) {
  Model model = read_model(file);
  Report report;
  optimize(model, report);
  return model;
}

class FusedBeams : public testing::TestWithParam<size_t> {
 protected:
  const Layout& layout() const { return layouts()[GetParam()]; }
  fs::path source() const { return kModels / layout().folder; }
};

TEST_P(FusedBeams, ReadSharedMemoriesAndReorderedCachesWhereTheyLie) {
  const auto encoder = Plan::compile(fused(source() / "encoder_model.onnx"));
  std::vector<Model> decoders;
  for (const std::string& d : layout().decoders) decoders.push_back(fused(source() / (d + ".onnx")));
  DecoderModels models;
  models.first = &decoders[0];
  if (decoders.size() > 1) models.with_past = &decoders[1];
  const DecoderPlans plans(models, {encoder->inputs(), encoder->outputs()}, {});
  size_t past = 0, source = 0;
  for (size_t s = 0; s < plans.states().size(); ++s) {
    past += plans.use_of_state(s) == RowUse::kPast ? 1U : 0U;
    source += plans.use_of_state(s) == RowUse::kSource ? 1U : 0U;
  }
  EXPECT_GT(past, 0U);
  EXPECT_EQ(past, source);
  EXPECT_EQ(past + source, plans.states().size());
}

TEST_P(FusedBeams, GiveHuggingFacesTokensAndScores) {
  const test::TemporaryFolder folder;
  std::vector<std::string> files = layout().decoders;
  files.push_back("encoder_model");
  for (const std::string& f : files) {
    Model model = fused(source() / (f + ".onnx"));
    write_model(model, folder / (f + ".onnx"));
  }
  const fs::path family = source().parent_path();
  fs::copy(family / "generation_config.json", folder / "generation_config.json");
  const auto outcome = test::run_recorded_generation(family, folder.path());
  EXPECT_GT(outcome.runs, 0U);
  EXPECT_THAT(outcome.differences, testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Layouts, FusedBeams, testing::Range(size_t{0}, layouts().size()));

}  // namespace
}  // namespace attune
