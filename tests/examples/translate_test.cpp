// The demo models before and after conversion: held-out sentences, the two sentences of the demo, and their alignment.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "convert/convert.h"
#include "runtime/generator.h"
#include "runtime/text/tokenizer.h"
#include "tests/support/temporary_folder.h"

namespace attune {
namespace {

namespace fs = std::filesystem;

const fs::path kExample = fs::path(ATTUNE_SOURCE_DIR) / "examples/translate";

struct Pair {
  std::string french, english;
};

std::vector<Pair> heldout() {
  std::vector<Pair> out;
  std::ifstream in(kExample / "heldout.tsv");
  for (std::string line; std::getline(in, line);)
    out.push_back({line.substr(0, line.find('\t')), line.substr(line.find('\t') + 1)});
  return out;
}

GeneratorOptions with_alignments(bool wanted) {
  GeneratorOptions options;
  options.alignments = wanted;
  return options;
}

class Translator {
 public:
  explicit Translator(const fs::path& folder, bool alignments = false)
      : tokenizer_(load_tokenizer_json(folder / "tokenizer.json")),
        generator_(Generator::load(folder, with_alignments(alignments))) {
    options_ = generator_.defaults();
    options_.output_alignments = alignments;
  }

  std::vector<Generation> generate(const std::vector<std::string>& texts) {
    std::vector<std::vector<int64_t>> sources;
    size_t width = 0;
    for (const std::string& t : texts) width = std::max(width, sources.emplace_back(tokenizer_->encode(t)).size());
    Tensor ids = Tensor::allocate(DataType::kInt64, {static_cast<int64_t>(texts.size()), static_cast<int64_t>(width)});
    Tensor mask = Tensor::allocate(DataType::kInt64, ids.shape());
    for (size_t r = 0; r < sources.size(); ++r)
      for (size_t c = 0; c < width; ++c) {
        ids.mutable_data<int64_t>()[r * width + c] = c < sources[r].size() ? sources[r][c] : 0;
        mask.mutable_data<int64_t>()[r * width + c] = c < sources[r].size() ? 1 : 0;
      }
    std::vector<Generation> out;
    for (auto& g : generator_.generate({{"input_ids", ids}, {"attention_mask", mask}}, options_))
      out.push_back(std::move(g.front()));
    return out;
  }

  std::string text(const Generation& g) const {
    return tokenizer_->decode(std::span(g.tokens).subspan(g.prompt_length));
  }
  std::string translate(const std::string& t) { return text(generate({t}).front()); }

 private:
  std::unique_ptr<Tokenizer> tokenizer_;
  Generator generator_;
  GenerationOptions options_;
};

// Words as the tokenizer joins them: "?" and "'" stand alone.
double share_right(Translator& translator, const std::vector<Pair>& pairs) {
  std::vector<std::string> texts;
  for (const Pair& p : pairs) texts.push_back(p.french);
  const auto generations = translator.generate(texts);
  size_t right = 0;
  for (size_t i = 0; i < pairs.size(); ++i) right += translator.text(generations[i]) == pairs[i].english ? 1 : 0;
  return static_cast<double>(right) / static_cast<double>(pairs.size());
}

class DemoModel : public testing::TestWithParam<std::string> {};

// The converted folder, made once for all tests of a model.
fs::path converted(const std::string& model, Conversion* result = nullptr) {
  static const test::TemporaryFolder folder;
  static std::map<std::string, Conversion> done;
  const fs::path out = folder / model;
  if (!done.contains(model)) done[model] = convert(kExample / "models" / model, out, {});
  if (result) *result = done[model];
  return out;
}

TEST_P(DemoModel, EveryAttentionFusesAndTheResultIsVerified) {
  Conversion c;
  converted(GetParam(), &c);
  EXPECT_TRUE(c.written);
  const std::map<std::string, size_t> attentions = {{"encoder.onnx", 0},
                                                    {"decoder_step.onnx", 1},
                                                    {"encoder_model.onnx", 2},
                                                    {"decoder_model.onnx", 4},
                                                    {"decoder_with_past_model.onnx", 4}};
  for (const ConvertedModel& m : c.models) {
    EXPECT_EQ(m.attentions, attentions.at(m.source.filename())) << m.source;
    EXPECT_TRUE(m.report.near_misses.empty()) << m.source << ": " << m.report.near_misses.front().reason;
    ASSERT_TRUE(m.verification.has_value());
    EXPECT_TRUE(m.verification->passed()) << m.source << ": " << m.verification->largest_relative;
  }
}

TEST_P(DemoModel, HeldOutSentencesTranslateRightBeforeAndAfter) {
  const auto pairs = heldout();
  ASSERT_EQ(pairs.size(), 400U);
  Translator before(kExample / "models" / GetParam()), after(converted(GetParam()));
  EXPECT_GE(share_right(before, pairs), 0.95);
  EXPECT_GE(share_right(after, pairs), 0.95);
}

TEST_P(DemoModel, TranslatesTheTwoSentences) {
  for (const fs::path& folder : {kExample / "models" / GetParam(), converted(GetParam())}) {
    Translator t(folder);
    EXPECT_EQ(t.translate("le chat noir dort"), "the black cat sleeps") << folder;
    EXPECT_EQ(t.translate("nous mangeons du pain"), "we are eating bread") << folder;
  }
}

INSTANTIATE_TEST_SUITE_P(Both, DemoModel, testing::Values("gru", "transformer"),
                         [](const auto& info) { return info.param; });

TEST(DemoModelAlignment, TheRecurrentModelAlignsBlackWithNoirAndCatWithChat) {
  Translator t(converted("gru"), true);
  const Generation g = t.generate({"le chat noir dort"}).front();
  const auto largest = [&](size_t row) {
    const auto& w = g.alignment.at(row);
    return std::max_element(w.begin(), w.end()) - w.begin();
  };
  ASSERT_EQ(t.text(g), "the black cat sleeps");
  EXPECT_EQ(largest(1), 2);  // black: noir
  EXPECT_EQ(largest(2), 1);  // cat: chat
}

}  // namespace
}  // namespace attune
