// Tokens chosen without storing the scores of all: the same as from the stored scores.
#include "runtime/selection.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "graph/io/reader.h"
#include "graph/io/text.h"
#include "graph/io/writer.h"
#include "passes/pass.h"
#include "runtime/generator.h"
#include "runtime/profile.h"
#include "runtime/session.h"
#include "runtime/token_rules.h"
#include "tests/support/temporary_folder.h"

namespace attune {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::Optional;

const fs::path kMarian = fs::path(ATTUNE_SOURCE_DIR) / "tests/models/marian/optimum_sdpa_op17";

size_t calls(const Profile& profile, std::string_view op) {
  const auto& events = profile.events();
  return static_cast<size_t>(
      std::count_if(events.begin(), events.end(), [&](const ProfileEvent& e) { return e.op == op; }));
}

class Selecting : public testing::Test {
 protected:
  Selecting() {
    for (const char* file : {"encoder_model.onnx", "decoder_model.onnx", "decoder_with_past_model.onnx"}) {
      Model model = read_model(kMarian / file);
      Report report;
      optimize(model, report);
      write_model(model, folder_ / file);
    }
    fs::copy(kMarian.parent_path() / "generation_config.json", folder_ / "generation_config.json");
  }
  const test::TemporaryFolder folder_;
};

TEST_F(Selecting, GivesTheTokensOfTheStoredScores) {
  Profile profile;
  GeneratorOptions load;
  load.session.profile = &profile;
  Generator generator = Generator::load(folder_.path(), load);
  const TensorMap inputs{{"input_ids", Tensor::from<int64_t>({2, 4}, {55, 108, 22, 77, 53, 147, 111, 61})}};
  GenerationOptions options = generator.defaults();
  options.max_new_tokens = 12;
  for (const int beams : {1, 4})
    for (int rules = 0; rules < 3; ++rules) {
      options.num_beams = options.num_return_sequences = beams;
      options.min_new_tokens = rules > 0 ? 9 : 0;
      options.suppress_tokens = rules > 1 ? std::vector<int64_t>{86, 34} : std::vector<int64_t>{};
      options.output_log_probabilities = false;
      profile.clear();
      const auto selected = generator.generate(inputs, options);
      EXPECT_GT(calls(profile, "ai.attune.runtime.LinearTop"), 0U) << "nothing was selected";
      // Log-probabilities of all tokens are needed for what this asks for.
      options.output_log_probabilities = true;
      profile.clear();
      const auto stored = generator.generate(inputs, options);
      EXPECT_EQ(calls(profile, "ai.attune.runtime.LinearTop"), 0U);
      for (size_t s = 0; s < 2; ++s) {
        ASSERT_EQ(selected[s].size(), stored[s].size());
        for (size_t i = 0; i < stored[s].size(); ++i) {
          EXPECT_EQ(selected[s][i].tokens, stored[s][i].tokens) << beams << " beams, rules " << rules;
          EXPECT_EQ(selected[s][i].score, stored[s][i].score);
        }
      }
    }
}

// A step that selects has no room for the scores of all tokens.
TEST(AddSelection, StoresNoScoresOfAllTokens) {
  constexpr int64_t kRows = 8, kTokens = 20000;
  Model model = parse_model(fmt::format(R"(<ir_version: 10, opset_import: ["" : 18]>
    g (float[b,1,2] x) => (float[b,1,{0}] logits) <float[2,{0}] w = {{{1}}}> {{ logits = MatMul(x, w) }})",
                                        kTokens, [] {
                                          std::string numbers = "0";
                                          for (int64_t i = 1; i < 2 * kTokens; ++i)
                                            numbers += fmt::format(", {}", i * 7919 % 1000);
                                          return numbers;
                                        }()));
  const auto selection = add_selection(model, 0);
  ASSERT_TRUE(selection);
  Session session(Plan::compile(model));
  std::vector<Datum> inputs(3), outputs;
  std::vector<float> x(2 * kRows, 0.5F);
  const auto peak = [&](bool select) {
    inputs[0] = Tensor::from<float>({kRows, 1, 2}, std::span<const float>(x));
    inputs[1] = Tensor::from<int64_t>({1}, {8});
    inputs[2] = Tensor::from<float>({1}, {0.0F});
    session.pool().reset_peak();
    session.run(inputs, outputs, {!select, select, select});
    outputs.clear();
    return session.pool().peak_bytes();
  };
  constexpr size_t kScores = kRows * kTokens * sizeof(float);
  EXPECT_LT(peak(true), kScores / 4);
  EXPECT_GE(peak(false), kScores);
}

TEST(AddSelection, SeesAProductPerhapsWithAVector) {
  const auto selection = [](const std::string& body) {
    Model model = parse_model(R"(<ir_version: 10, opset_import: ["" : 18, "ai.attune" : 1]>
      g (float[b,1,2] x) => (float[b,1,3] logits)
      <float[2,3] w = {1, 2, 3, 4, 5, 6}, float[3,2] t = {1, 2, 3, 4, 5, 6}, float[3] v = {1, 2, 3}, float[1,1,3] v3 = {1, 2, 3}> {)" +
                              body + "}");
    return add_selection(model, 0);
  };
  EXPECT_TRUE(selection("logits = MatMul(x, w)"));
  EXPECT_TRUE(selection("p = MatMul(x, w) logits = Add(p, v)"));
  EXPECT_TRUE(selection("p = MatMul(x, w) logits = Add(v3, p)"));
  EXPECT_TRUE(selection("logits = ai.attune.Linear <transposed = 1> (x, t, v)"));
  EXPECT_EQ(selection("logits = MatMul(x, w)")->vocabulary, 3U);
  EXPECT_FALSE(selection("p = MatMul(x, w) logits = Relu(p)"));
  EXPECT_FALSE(selection("logits = ai.attune.Linear <activation = \"relu\"> (x, w)"));
  EXPECT_FALSE(selection("p = MatMul(x, w) logits = Add(p, p)"));
}

TEST(TokenRules, SaysWhatItExcludes) {
  GenerationOptions o;
  o.eos_token_id = {2};
  o.max_new_tokens = 20;
  const auto excluded = [&](int64_t length) { return TokenRules(o, 1).excluded(length, 100); };
  EXPECT_THAT(excluded(1), Optional(ElementsAre()));
  o.suppress_tokens = {9, 7, 200};
  o.begin_suppress_tokens = {5};
  o.min_new_tokens = 3;
  EXPECT_THAT(excluded(1), Optional(ElementsAre(2, 5, 7, 9)));
  EXPECT_THAT(excluded(2), Optional(ElementsAre(2, 7, 9)));
  EXPECT_THAT(excluded(4), Optional(ElementsAre(7, 9)));
  o.bad_words_ids = {{11}, {2}};
  EXPECT_THAT(excluded(4), Optional(ElementsAre(7, 9, 11)));
  o.bad_words_ids = {{11, 12}};
  EXPECT_EQ(excluded(4), std::nullopt) << "depends on the tokens before";
  o.bad_words_ids = {{100}};
  EXPECT_EQ(excluded(4), std::nullopt) << "is to be refused";
  o.bad_words_ids.clear();
  o.repetition_penalty = 1.5F;
  EXPECT_EQ(excluded(4), std::nullopt);
  o.repetition_penalty = 1;
  o.forced_eos_token_id = {2};
  EXPECT_EQ(excluded(20), std::nullopt);
  EXPECT_TRUE(excluded(19));
}

}  // namespace
}  // namespace attune
