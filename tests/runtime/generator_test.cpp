#include "runtime/generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "graph/io/reader.h"
#include "graph/io/writer.h"
#include "passes/pass.h"
#include "tests/support/recorded_generation.h"
#include "tests/support/temporary_folder.h"

namespace attune {
namespace {

namespace fs = std::filesystem;
using Tokens = std::vector<int64_t>;

const fs::path kModels = fs::path(ATTUNE_SOURCE_DIR) / "tests/models";
const fs::path kMarian = kModels / "marian/optimum_sdpa_op17";

std::vector<fs::path> variants() {
  std::vector<fs::path> found;
  for (const auto& family : fs::directory_iterator(kModels)) {
    if (!fs::exists(family.path() / "generate.json")) continue;
    for (const auto& variant : fs::directory_iterator(family.path()))
      if (variant.is_directory() && test::difference_from_source(variant.path()) <= 1e-4)
        found.push_back(variant.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

class RecordedGeneration : public testing::TestWithParam<fs::path> {};

TEST_P(RecordedGeneration, GivesHuggingFacesTokensAndScores) {
  const auto outcome = test::run_recorded_generation(GetParam().parent_path(), GetParam());
  EXPECT_GT(outcome.runs, 0U);
  EXPECT_THAT(outcome.differences, testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Variants, RecordedGeneration, testing::ValuesIn(variants()),
                         [](const auto& info) { return info.param.filename().string(); });

TensorMap source(const std::vector<Tokens>& rows, const std::vector<Tokens>& mask) {
  Tokens ids, flags;
  for (const auto& r : rows) ids.insert(ids.end(), r.begin(), r.end());
  for (const auto& r : mask) flags.insert(flags.end(), r.begin(), r.end());
  const Shape shape{static_cast<int64_t>(rows.size()), static_cast<int64_t>(rows[0].size())};
  return {{"input_ids", Tensor::from<int64_t>(shape, ids)}, {"attention_mask", Tensor::from<int64_t>(shape, flags)}};
}

Tokens padded(Tokens tokens, size_t width, int64_t fill) {
  tokens.resize(width, fill);
  return tokens;
}

const Tokens kShort{55, 108, 22, 77}, kLong{53, 147, 111, 61, 27, 124, 66, 95, 99, 51, 62};

// The folders of both layouts: two decoders, and one merged.
class AnyLayout : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    const std::vector<std::string> files =
        GetParam() ? std::vector<std::string>{"encoder_model", "decoder_model_merged"}
                   : std::vector<std::string>{"encoder_model", "decoder_model", "decoder_with_past_model"};
    for (const auto& f : files) fs::copy(kMarian / (f + ".onnx"), folder_.path() / (f + ".onnx"));
    fs::copy(kModels / "marian/generation_config.json", folder_ / "generation_config.json");
  }
  const test::TemporaryFolder folder_;
};

TEST_P(AnyLayout, SameTokensAloneAndPaddedAndInCompany) {
  Generator generator = Generator::load(folder_.path());
  for (const int64_t beams : {1, 4}) {
    SCOPED_TRACE(beams);
    GenerationOptions options = generator.defaults();
    options.num_beams = beams;
    options.max_new_tokens = 12;
    const auto alone = generator.generate(source({kShort}, {Tokens(4, 1)}), options).at(0).at(0).tokens;
    for (const size_t width : {8, 12, 64}) {
      const auto ids = padded(kShort, width, 159), mask = padded(Tokens(4, 1), width, 0);
      EXPECT_EQ(generator.generate(source({ids}, {mask}), options).at(0).at(0).tokens, alone) << width;
      const auto pair = generator.generate(
          source({padded(kLong, width, 159), ids}, {padded(Tokens(11, 1), width, 0), mask}), options);
      if (width >= 11) {
        EXPECT_EQ(pair.at(1).at(0).tokens, alone) << "beside a longer one, width " << width;
      }
    }
  }
}

TEST_P(AnyLayout, OneTokenSource) {
  Generator generator = Generator::load(folder_.path());
  GenerationOptions options = generator.defaults();
  options.max_new_tokens = 5;
  options.num_beams = 2;
  EXPECT_GE(generator.generate(source({{0}}, {{1}}), options).at(0).at(0).tokens.size(), 2U);
}

TEST_P(AnyLayout, PromptsOfSeveralTokens) {
  Generator generator = Generator::load(folder_.path());
  GenerationOptions options = generator.defaults();
  options.max_new_tokens = 10;
  options.min_new_tokens = 10;
  const auto free = generator.generate(source({kLong}, {Tokens(11, 1)}), options).at(0).at(0).tokens;
  options.decoder_input_ids = {Tokens(free.begin(), free.begin() + 4)};
  options.max_new_tokens = options.min_new_tokens = 7;
  EXPECT_EQ(generator.generate(source({kLong}, {Tokens(11, 1)}), options).at(0).at(0).tokens, free);
}

INSTANTIATE_TEST_SUITE_P(Layouts, AnyLayout, testing::Bool());

// A recurrent decoder, one step a call: the states go round, and the encoder takes no mask.
TEST(Generator, RecurrentStepsEqualALoopOverThem) {
  const fs::path folder = kModels / "gru_bahdanau/torchscript_op14";
  constexpr int64_t kStart = 2, kSteps = 6;
  Session encoder(Plan::compile(read_model(folder / "encoder.onnx")));
  Session decoder(Plan::compile(read_model(folder / "decoder_step.onnx")));
  const auto by_hand = [&](const Tokens& ids) {
    const auto length = static_cast<int64_t>(ids.size());
    TensorMap states = encoder.run({{"ids", Tensor::from<int64_t>({1, length}, ids)}});
    const Tensor mask = Tensor::from<bool>({1, length}, {true, true, true});
    std::pair<Tokens, std::vector<std::vector<float>>> out{{kStart}, {}};
    Datum state = states["state"];
    for (int64_t t = 0; t < kSteps; ++t) {
      TensorMap step = decoder.run({{"token", Tensor::from<int64_t>({1, 1}, {out.first.back()})},
                                    {"state", state},
                                    {"memory", states["memory"]},
                                    {"mask", mask}});
      const auto logits = step["logits"].tensor().values<float>();
      out.first.push_back(std::max_element(logits.begin(), logits.end()) - logits.begin());
      const auto weights = step["weights"].tensor().values<float>();
      out.second.emplace_back(weights.begin(), weights.end());
      state = step["new_state"];
    }
    return out;
  };
  Generator generator = Generator::load(folder);
  GenerationOptions options;
  options.decoder_start_token_id = kStart;
  options.max_new_tokens = kSteps;
  options.output_alignments = true;
  const Tokens a{5, 17, 33}, b{8, 40, 61};
  const auto found =
      generator.generate(source({padded(a, 5, 0), padded(b, 5, 0)}, {{1, 1, 1, 0, 0}, {1, 1, 1, 0, 0}}), options);
  for (size_t s = 0; s < 2; ++s) {
    const auto [tokens, weights] = by_hand(s == 0 ? a : b);
    EXPECT_EQ(found[s][0].tokens, tokens);
    ASSERT_EQ(found[s][0].alignment.size(), weights.size());
    for (size_t t = 0; t < weights.size(); ++t)
      for (size_t p = 0; p < 3; ++p) EXPECT_NEAR(found[s][0].alignment[t][p], weights[t][p], 1e-5);
  }
}

TEST(Generator, SamplesDependOnTheSeedAndNotOnTheBatch) {
  Generator generator = Generator::load(kMarian);
  GenerationOptions options = generator.defaults();
  options.do_sample = true;
  options.num_return_sequences = 3;
  options.max_new_tokens = 8;
  options.seed = 7;
  const auto one = generator.generate(source({kLong}, {Tokens(11, 1)}), options);
  const auto two = generator.generate(
      source({kLong, padded(kShort, 11, 159)}, {Tokens(11, 1), padded(Tokens(4, 1), 11, 0)}), options);
  ASSERT_EQ(one.at(0).size(), 3U);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(one[0][i].tokens, two[0][i].tokens);
  EXPECT_NE(one[0][0].tokens, one[0][1].tokens);
  options.seed = 8;
  EXPECT_NE(generator.generate(source({kLong}, {Tokens(11, 1)}), options).at(0).at(0).tokens, one[0][0].tokens);
}

// Marian with its attentions fused: cross-attention can give its weights.
class FusedMarian : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new test::TemporaryFolder;
    for (const auto& entry : fs::directory_iterator(kMarian)) {
      if (entry.path().extension() != ".onnx" || entry.path().stem() == "decoder_model_merged") continue;
      Model model = read_model(entry.path());
      Report report;
      optimize(model, report);
      write_model(model, folder_->path() / entry.path().filename());
    }
    fs::copy(kModels / "marian/generation_config.json", *folder_ / "generation_config.json");
  }
  static void TearDownTestSuite() { delete folder_; }
  static test::TemporaryFolder* folder_;
};
test::TemporaryFolder* FusedMarian::folder_ = nullptr;

TEST_F(FusedMarian, GivesHuggingFacesTokensAndScores) {
  const auto outcome = test::run_recorded_generation(kModels / "marian", folder_->path());
  EXPECT_GT(outcome.runs, 0U);
  EXPECT_THAT(outcome.differences, testing::IsEmpty());
}

TEST_F(FusedMarian, AlignmentsFollowTheWinningBeam) {
  GeneratorOptions load;
  load.alignments = true;
  Generator generator = Generator::load(folder_->path(), load);
  const TensorMap inputs = source({padded(kShort, 11, 159), kLong}, {padded(Tokens(4, 1), 11, 0), Tokens(11, 1)});
  GenerationOptions options = generator.defaults();
  options.num_beams = 4;
  options.num_return_sequences = 2;
  options.max_new_tokens = 8;
  options.min_new_tokens = 5;
  options.output_alignments = true;
  const auto found = generator.generate(inputs, options);
  options.num_beams = options.num_return_sequences = 1;
  options.max_new_tokens = 1;
  options.min_new_tokens = 0;
  for (size_t s = 0; s < 2; ++s)
    for (const Generation& g : found.at(s)) {
      ASSERT_EQ(g.alignment.size(), g.tokens.size() - g.prompt_length);
      for (size_t t = 0; t < g.alignment.size(); ++t) {
        ASSERT_EQ(g.alignment[t].size(), 11U);
        float sum = 0;
        for (const float w : g.alignment[t]) sum += w;
        EXPECT_NEAR(sum, 1, 1e-5);
        for (size_t p = 4; s == 0 && p < 11; ++p) EXPECT_EQ(g.alignment[t][p], 0) << "padding";
        // The same tokens given as a prompt attend in the same way.
        options.decoder_input_ids = {Tokens(g.tokens.begin(), g.tokens.begin() + static_cast<std::ptrdiff_t>(t + 1))};
        const auto again = generator.generate(inputs, options).at(s).at(0).alignment.at(0);
        for (size_t p = 0; p < 11; ++p) EXPECT_NEAR(again[p], g.alignment[t][p], 1e-5) << s << " " << t << " " << p;
      }
    }
}

TEST(Generator, ReplicasGenerateAtOnce) {
  GeneratorOptions load;
  load.session.threads = 1;
  Generator generator = Generator::load(kMarian, load);
  GenerationOptions options = generator.defaults();
  options.num_beams = 2;
  options.max_new_tokens = 10;
  const TensorMap inputs = source({kLong}, {Tokens(11, 1)});
  const Tokens expected = generator.generate(inputs, options).at(0).at(0).tokens;
  std::vector<std::thread> threads;
  std::array<bool, 4> right{};
  for (size_t i = 0; i < right.size(); ++i)
    threads.emplace_back([&, i, own = std::make_shared<Generator>(generator.replica())] {
      right[i] = true;
      for (int round = 0; round < 5; ++round)
        right[i] = right[i] && own->generate(inputs, options).at(0).at(0).tokens == expected;
    });
  for (auto& t : threads) t.join();
  EXPECT_THAT(right, testing::Each(true));
}

TEST(Generator, SaysWhatIsMissing) {
  Generator generator = Generator::load(kMarian);
  try {
    generator.generate({}, generator.defaults());
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("input_ids"));
  }
}

TEST(Generator, FolderWithoutModels) {
  const test::TemporaryFolder folder;
  EXPECT_THROW(Generator::load(folder.path()), Error);
}

}  // namespace
}  // namespace attune
