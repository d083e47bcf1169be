#include "runtime/shortlist.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "graph/io/npy.h"
#include "graph/io/reader.h"
#include "graph/io/text.h"
#include "passes/pass.h"
#include "runtime/generator.h"
#include "tests/support/error_matchers.h"
#include "tests/support/temporary_folder.h"

namespace attune {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using Tokens = std::vector<int64_t>;

const fs::path kMarian = fs::path(ATTUNE_SOURCE_DIR) / "tests/models/marian/optimum_eager_op14";
constexpr int64_t kVocabulary = 160;

Tensor row(const Tokens& values) { return Tensor::from<int64_t>({static_cast<int64_t>(values.size())}, values); }

TEST(Shortlist, AllowsWhatEachSourceTokenBrings) {
  const test::TemporaryFolder folder;
  EXPECT_FALSE(Shortlist::load(folder.path()).has_value());
  write_npz(folder / "shortlist.npz",
            {{"always", row({0, 2})}, {"offsets", row({0, 2, 2, 5})}, {"tokens", row({7, 2, 9, 8, 1})}});
  const auto list = Shortlist::load(folder.path());
  ASSERT_TRUE(list.has_value());
  EXPECT_THAT(list->allowed(Tokens{}), ElementsAre(0, 2));
  EXPECT_THAT(list->allowed(Tokens{0, 0}), ElementsAre(0, 2, 7));
  EXPECT_THAT(list->allowed(Tokens{2, 1, 0}), ElementsAre(0, 1, 2, 7, 8, 9));
  EXPECT_THAT(list->allowed(Tokens{3, -1}), ElementsAre(0, 2)) << "beyond the vocabulary";
}

TEST(Shortlist, SaysWhatIsWrongWithAFile) {
  const test::TemporaryFolder folder;
  const auto error = [&](const NamedTensors& arrays) {
    write_npz(folder / "shortlist.npz", arrays);
    return test::thrown([&] { Shortlist::load(folder.path()); });
  };
  constexpr auto kKind = Error::Kind::kInvalidArgument;
  EXPECT_THAT(error({{"always", row({0})}, {"offsets", row({0})}}), test::IsError(kKind, "'tokens'"));
  EXPECT_THAT(error({{"always", row({0})}, {"offsets", row({0, 2})}, {"tokens", row({1})}}),
              test::IsError(kKind, "'offsets'"));
  EXPECT_THAT(error({{"always", row({0})}, {"offsets", row({0, 2, 1})}, {"tokens", row({1})}}),
              test::IsError(kKind, "'offsets'"));
  EXPECT_THAT(error({{"always", row({-1})}, {"offsets", row({0})}, {"tokens", row({})}}),
              test::IsError(kKind, "negative"));
  EXPECT_THAT(error({{"always", Tensor::from<float>({1}, {0})}, {"offsets", row({0})}, {"tokens", row({})}}),
              test::IsError(kKind, "shortlist.npz"));
}

// A head with a matrix of (width 2, vocabulary 4), in the forms that exporters and our passes write.
class ShortenedHead : public testing::TestWithParam<const char*> {};

TEST_P(ShortenedHead, GivesTheColumnsOfItsTokens) {
  const std::string text = fmt::format(R"(<ir_version: 10, opset_import: ["" : 18, "ai.attune" : 1]>
    head (float[n,2] x) => (float[n,4] logits)
    <float[2,4] w = {{1, 2, 3, 4, 5, 6, 7, 8}}, float[4,2] wt = {{1, 5, 2, 6, 3, 7, 4, 8}}, float[4] b = {{10, 20, 30, 40}},
     float[1,4] row = {{10, 20, 30, 40}}, float[1] two = {{2}}> {{ {} }})",
                                       GetParam());
  Model model = parse_model(text);
  const TensorMap x{{"x", Tensor::from<float>({2, 2}, {1, -1, 0.5F, 2})}};
  const Tensor all = Session(Plan::compile(model)).run(x).at("logits").tensor();
  const auto shortened = shorten_logits(*model.graph, 0);
  ASSERT_TRUE(shortened.has_value());
  EXPECT_EQ(shortened->vocabulary, 4U);
  TensorMap inputs = x;
  inputs[shortened->input] = row({1, 3});
  const Tensor some = Session(Plan::compile(model)).run(inputs).at("logits").tensor();
  ASSERT_EQ(some.shape(), (Shape{2, 2}));
  for (size_t r = 0; r < 2; ++r)
    for (size_t c = 0; c < 2; ++c) EXPECT_EQ(some.data<float>()[2 * r + c], all.data<float>()[4 * r + 2 * c + 1]);
}

INSTANTIATE_TEST_SUITE_P(Forms, ShortenedHead,
                         testing::Values("logits = MatMul(x, w)", "y = MatMul(x, w) logits = Add(b, y)",
                                         "y = MatMul(x, w) z = Mul(two, y) logits = Add(z, row)",
                                         "t = Transpose <perm = [1, 0]> (wt) y = MatMul(x, t) logits = Identity(y)",
                                         "logits = ai.attune.Linear(x, w, b)",
                                         "logits = ai.attune.Linear <transposed = 1> (x, wt, b)",
                                         "y = Gemm <transB = 1> (x, wt) logits = Add(y, b)"));

TEST(ShortenedHeads, OthersAreLeftAsTheyAre) {
  for (const char* nodes : {"y = MatMul(x, w) logits = Softmax(y)", "logits = MatMul(x, w) y = Neg(logits)"}) {
    Model model = parse_model(fmt::format(R"(<ir_version: 10, opset_import: ["" : 18]>
      head (float[n,2] x) => (float[n,4] logits, float[n,4] y) <float[2,4] w = {{1, 2, 3, 4, 5, 6, 7, 8}}> {{ {} }})",
                                          nodes));
    EXPECT_FALSE(shorten_logits(*model.graph, 0).has_value()) << nodes;
    EXPECT_EQ(model.graph->inputs().size(), 1U);
  }
}

// Marian with a shortlist: a source token s allows 3 s and 7 s + 1.
class MarianWithShortlist : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    for (const std::string& f : files()) fs::copy(kMarian / f, plain_ / f), fs::copy(kMarian / f, short_ / f);
    for (const auto* folder : {&plain_, &short_})
      fs::copy(kMarian / "generation_config.json", *folder / "generation_config.json");
    Tokens offsets{0}, tokens;
    for (int64_t s = 0; s < kVocabulary; ++s) {
      tokens.insert(tokens.end(), {3 * s % kVocabulary, (7 * s + 1) % kVocabulary});
      offsets.push_back(static_cast<int64_t>(tokens.size()));
    }
    write_npz(short_ / "shortlist.npz",
              {{"always", row({0, 1, 2, 3})}, {"offsets", row(offsets)}, {"tokens", row(tokens)}});
  }
  std::vector<std::string> files() const {
    if (GetParam() == "merged") return {"encoder_model.onnx", "decoder_model_merged.onnx"};
    return {"encoder_model.onnx", "decoder_model.onnx", "decoder_with_past_model.onnx"};
  }
  GeneratorOptions load() const {
    GeneratorOptions o;
    if (GetParam() == "fused")
      o.prepare = [](Model& m) {
        Report report;
        optimize(m, report);
      };
    return o;
  }
  test::TemporaryFolder plain_, short_;
};

TensorMap sources(const std::vector<Tokens>& rows) {
  Tokens ids, mask;
  for (const Tokens& r : rows)
    for (size_t i = 0; i < 6; ++i) {
      ids.push_back(i < r.size() ? r[i] : 159);
      mask.push_back(i < r.size() ? 1 : 0);
    }
  const Shape shape{static_cast<int64_t>(rows.size()), 6};
  return {{"input_ids", Tensor::from<int64_t>(shape, ids)}, {"attention_mask", Tensor::from<int64_t>(shape, mask)}};
}

TEST_P(MarianWithShortlist, GivesWhatSuppressingAllOtherTokensGives) {
  const std::vector<Tokens> rows{{53, 147, 111, 61, 27, 124}, {55, 108, 22}};
  const auto list = Shortlist::load(short_.path());
  Generator shortened = Generator::load(short_.path(), load()), full = Generator::load(plain_.path(), load());
  GenerationOptions options = full.defaults();
  options.max_new_tokens = 12;
  const auto together = shortened.generate(sources(rows), options);
  for (size_t s = 0; s < rows.size(); ++s) {
    GenerationOptions suppressed = options;
    const Tokens allowed = list->allowed(rows[s]);
    for (int64_t t = 0; t < kVocabulary; ++t)
      if (!std::binary_search(allowed.begin(), allowed.end(), t)) suppressed.suppress_tokens.push_back(t);
    EXPECT_EQ(together[s][0].tokens, full.generate(sources({rows[s]}), suppressed).at(0).at(0).tokens) << s;
  }
  options.num_beams = 3;
  for (size_t s = 0; s < rows.size(); ++s) {
    const Tokens allowed = list->allowed(rows[s]);
    const Tokens tokens = shortened.generate(sources(rows), options).at(s).at(0).tokens;
    for (size_t i = 1; i < tokens.size(); ++i)
      EXPECT_TRUE(std::binary_search(allowed.begin(), allowed.end(), tokens[i])) << tokens[i];
  }
}

TEST_P(MarianWithShortlist, LengthFollowsTheSource) {
  Generator generator = Generator::load(plain_.path(), load());
  GenerationOptions options = generator.defaults();
  options.max_new_tokens = 40;
  options.eos_token_id = {};
  options.forced_eos_token_id = {};
  options.max_length_factor = 1.5;
  for (const int64_t beams : {1, 2}) {
    options.num_beams = beams;
    const auto found = generator.generate(sources({{53, 147, 111, 61, 27, 124}, {55, 108, 22}}), options);
    EXPECT_EQ(found[0][0].tokens.size() - 1, 9U);
    EXPECT_EQ(found[1][0].tokens.size() - 1, 5U) << "4.5, rounded up";
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, MarianWithShortlist, testing::Values("two", "fused", "merged"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace attune
