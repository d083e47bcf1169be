#include "runtime/translator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/error_matchers.h"

namespace attune {
namespace {

using testing::ElementsAre;

const std::filesystem::path kModels = std::filesystem::path(ATTUNE_SOURCE_DIR) / "examples/translate/models";

TEST(Translator, TranslatesTogetherAsOneByOne) {
  Translator translator = Translator::load(kModels / "gru");
  const std::vector<std::string> texts{"le chat noir dort", "est-ce que la petite fille cherche un chapeau rouge ?",
                                       "nous mangeons du pain"};
  const auto together = translator.translate(texts, translator.defaults());
  ASSERT_EQ(together.size(), 3U);
  EXPECT_EQ(together[0].at(0).text, "the black cat sleeps");
  EXPECT_EQ(together[2].at(0).text, "we are eating bread");
  for (size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(translator.translate(texts[i]), together[i].at(0).text);
  EXPECT_TRUE(translator.translate({}, translator.defaults()).empty());
}

TEST(Translator, GivesAsManyTranslationsAsAskedFor) {
  Translator translator = Translator::load(kModels / "transformer");
  GenerationOptions options = translator.defaults();
  options.num_beams = options.num_return_sequences = 3;
  const auto best = translator.translate({"le chat noir dort"}, options).at(0);
  ASSERT_EQ(best.size(), 3U);
  EXPECT_EQ(best[0].text, "the black cat sleeps");
  EXPECT_GT(best[0].generation.score.value(), best[1].generation.score.value());
  EXPECT_NE(best[0].text, best[1].text);
}

TEST(Translator, AlignsTokensOfTheSourceWithThoseOfTheTranslation) {
  GeneratorOptions load;
  load.alignments = true;
  Translator translator = Translator::load(kModels / "gru", load);
  GenerationOptions options = translator.defaults();
  options.output_alignments = true;
  const auto both = translator.translate({"le chat noir dort", "nous mangeons du pain dans la cuisine"}, options);
  const AlignmentPicture p = translator.alignment(both.at(0).at(0));
  EXPECT_THAT(p.rows, ElementsAre("the", "black", "cat", "sleeps", "</s>"));
  EXPECT_THAT(p.columns, ElementsAre("le", "chat", "noir", "dort", "</s>"));
  ASSERT_EQ(p.heads.size(), 1U);
  EXPECT_GT(p.heads[0].weights.at(1 * 5 + 2), 0.9F);  // black: noir
  EXPECT_GT(p.heads[0].weights.at(2 * 5 + 1), 0.9F);  // cat: chat
}

TEST(Translator, NeedsATokenizer) {
  const auto error = test::thrown(
      [] { Translator::load(std::filesystem::path(ATTUNE_SOURCE_DIR) / "tests/models/marian/optimum_sdpa_op17"); });
  EXPECT_THAT(error, test::IsError(Error::Kind::kInvalidArgument, "no tokenizer"));
}

}  // namespace
}  // namespace attune
