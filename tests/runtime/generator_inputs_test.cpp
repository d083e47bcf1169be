// What a generator takes beside token ids, and models whose results don't fit what it was given.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "graph/io/text.h"
#include "graph/io/writer.h"
#include "runtime/generator.h"
#include "tests/support/error_matchers.h"
#include "tests/support/temporary_folder.h"

namespace attune {
namespace {

using test::error_of;
using test::TemporaryFolder;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kHead = R"(<ir_version: 8, opset_import: ["" : 17]> )";

// The token with the largest sum over the states of source and target, which are rows of the identity; never token 0.
constexpr const char* kDecoder =
    R"(g (int64[b, t] input_ids, float[b, s, 6] encoder_hidden_states) => (float[b, t, 6] logits)
  <float[6] bias = {-99, 0, 0, 0, 0, 0}> {
    sum = ReduceMean <axes = [1]> (encoder_hidden_states)
    zeros = Cast <to = 1> (input_ids)
    none = Sub (zeros, zeros)
    two = Constant <value_ints = [2]> ()
    wide = Unsqueeze (none, two)
    biased = Add (sum, bias)
    logits = Add (wide, biased)
  })";

void write(const std::filesystem::path& file, const std::string& text) {
  Model model = parse_model(text);
  write_model(model, file);
}

Generator generator(const TemporaryFolder& folder, const std::string& encoder, const std::string& decoder = kDecoder) {
  write(folder / "encoder_model.onnx", kHead + encoder);
  write(folder / "decoder_model.onnx", kHead + decoder);
  folder.write("generation_config.json",
               R"({"decoder_start_token_id": 1, "eos_token_id": 5, "pad_token_id": 0, "max_new_tokens": 1})");
  return Generator::load(folder.path());
}

std::vector<int64_t> first_tokens(const std::vector<std::vector<Generation>>& results) {
  std::vector<int64_t> out;
  for (const auto& r : results) out.push_back(r.at(0).tokens.at(1));
  return out;
}

Tensor ids(const Shape& shape, const std::vector<int64_t>& values) { return Tensor::from<int64_t>(shape, values); }

// States: 1 at the token's place, and 3 at the segment's.
constexpr const char* kSegments = R"(g (int64[b, s] segments_first, int64[b, s] input_ids, int64[b, s] attention_mask,
    int64[b, s] token_type_ids) => (float[b, s, 6] states) {
    depth = Constant <value_int = 6> ()
    token_values = Constant <value_floats = [0.0, 1.0]> ()
    segment_values = Constant <value_floats = [0.0, 3.0]> ()
    of_tokens = OneHot (input_ids, depth, token_values)
    of_segments = OneHot (token_type_ids, depth, segment_values)
    sum = Add (of_tokens, of_segments)
    other = OneHot (segments_first, depth, token_values)
    states = Add (sum, other)
  })";

TEST(GeneratorInputs, IntegersBesideTheTokensKeepTheirOwnValues) {
  TemporaryFolder folder;
  Generator g = generator(folder, kSegments);
  const TensorMap inputs{{"input_ids", ids({2, 3}, {2, 2, 0, 3, 3, 0})},
                         {"segments_first", ids({2, 3}, {1, 1, 1, 1, 1, 1})},
                         {"attention_mask", ids({2, 3}, {1, 1, 0, 1, 1, 0})},
                         {"token_type_ids", ids({2, 3}, {4, 4, 4, 3, 3, 3})}};
  EXPECT_THAT(first_tokens(g.generate(inputs, g.defaults())), ElementsAre(4, 3));
}

// BERT's encoders take segment 0 where none is given.
TEST(GeneratorInputs, SegmentsAreZeroIfNotGiven) {
  TemporaryFolder folder;
  Generator g = generator(folder, kSegments);
  const TensorMap inputs{{"input_ids", ids({2, 2}, {2, 2, 4, 4})}, {"segments_first", ids({2, 2}, {2, 2, 4, 4})}};
  EXPECT_THAT(first_tokens(g.generate(inputs, g.defaults())), ElementsAre(2, 4));
}

TEST(GeneratorInputs, EachInputHasARowForEachSource) {
  TemporaryFolder folder;
  Generator g = generator(folder, R"(g (int64[b, s] input_ids, float[n, 1, 6] extra) => (float[b, s, 6] states) {
    depth = Constant <value_int = 6> ()
    values = Constant <value_floats = [0.0, 1.0]> ()
    tokens = OneHot (input_ids, depth, values)
    states = Add (tokens, extra)
  })");
  const TensorMap inputs{{"input_ids", ids({3, 1}, {2, 3, 4})},
                         {"extra", Tensor::from<float>({1, 1, 6}, std::vector<float>(6))}};
  EXPECT_THAT(error_of([&] { g.generate(inputs, g.defaults()); }),
              testing::AllOf(HasSubstr("extra: expected 3 sources"), HasSubstr("(1,1,6)")));
}

TEST(GeneratorInputs, FeaturesCountTheSources) {
  TemporaryFolder folder;
  Generator g = generator(folder, R"(g (float[b, s, 6] features, float[n] scale) => (float[b, s, 6] states) {
    states = Mul (features, scale)
  })");
  std::vector<float> features(2 * 6);
  features[2] = features[6 + 4] = 1;
  const TensorMap inputs{{"features", Tensor::from<float>({2, 1, 6}, features)},
                         {"scale", Tensor::from<float>({1}, std::vector<float>{1})}};
  EXPECT_THAT(first_tokens(g.generate(inputs, g.defaults())), ElementsAre(2, 4));
}

TEST(GeneratorInputs, StatesHaveARowForEachSource) {
  TemporaryFolder folder;
  Generator g = generator(folder, R"(g (float[b, s, 6] features) => (float[n, s, 6] states) {
    states = ReduceMax <axes = [0]> (features)
  })");
  const TensorMap inputs{{"features", Tensor::from<float>({2, 1, 6}, std::vector<float>(12))}};
  EXPECT_THAT(error_of([&] { g.generate(inputs, g.defaults()); }),
              testing::AllOf(HasSubstr("2 sources"), HasSubstr("(1,1,6)")));
}

TEST(GeneratorInputs, AModelAloneGivesASequenceForEachSource) {
  for (const char* keep : {"0", "1"}) {
    TemporaryFolder folder;
    write(folder / "model.onnx", fmt::format(R"({}g (int64[b, s] input_ids) => (int64 tokens) {{
      tokens = ReduceMax <axes = [0], keepdims = {}> (input_ids)
    }})",
                                             kHead, keep));
    folder.write("generation_config.json", R"({"eos_token_id": 5})");
    Generator g = Generator::load(folder.path());
    EXPECT_THAT(error_of([&] {
                  g.generate({{"input_ids", ids({2, 3}, {1, 2, 3, 4, 1, 2})}}, g.defaults());
                }),
                HasSubstr("'tokens': expected tokens of shape (2 sources, length)"));
  }
}

TEST(GeneratorInputs, APromptForEachSourceOrOneForAll) {
  TemporaryFolder folder;
  Generator g = generator(folder, kSegments);
  const TensorMap inputs{{"input_ids", ids({3, 1}, {2, 3, 4})}, {"segments_first", ids({3, 1}, {2, 3, 4})}};
  GenerationOptions options = g.defaults();
  options.decoder_input_ids = {{1}, {1}};
  EXPECT_THAT(error_of([&] { g.generate(inputs, options); }), HasSubstr("2 prompts, but 3 sources"));
  EXPECT_THAT(error_of([&] { g.generate(g.encode(inputs), options); }), HasSubstr("2 prompts, but 3 sources"));
}

// Square roots of -1.
TEST(GeneratorInputs, ScoresThatAreNoNumbersAreRefused) {
  const std::string selecting =
      R"(g (int64[b, t] input_ids, float[b, s, 6] encoder_hidden_states) => (float[b, t, 6] logits)
    <float[6, 6] head = {1,0,0,0,0,0, 0,1,0,0,0,0, 0,0,1,0,0,0, 0,0,0,1,0,0, 0,0,0,0,1,0, 0,0,0,0,0,1}> {
      two = Constant <value_ints = [2]> ()
      tokens = Cast <to = 1> (input_ids)
      ones = Div (tokens, tokens)
      minus = Neg (ones)
      root = Sqrt (minus)
      column = Unsqueeze (root, two)
      sum = ReduceMean <axes = [1]> (encoder_hidden_states)
      x = Add (column, sum)
      logits = MatMul (x, head)
  })";
  const TensorMap inputs{{"input_ids", ids({1, 1}, {2})}, {"segments_first", ids({1, 1}, {2})}};
  TemporaryFolder folder;
  Generator g = generator(folder, kSegments, selecting);
  for (const int beams : {1, 3})
    for (const bool all_scores : {false, true}) {
      GenerationOptions options = g.defaults();
      options.num_beams = beams;
      options.output_log_probabilities = all_scores;
      EXPECT_THAT(error_of([&] { g.generate(inputs, options); }), HasSubstr("not finite")) << beams << all_scores;
    }
}

// An encoder that halves its tokens, and a decoder that gives weights over the halves.
TEST(GeneratorInputs, AlignmentsAreOfTheSourcesPositions) {
  TemporaryFolder folder;
  write(folder / "encoder_model.onnx", std::string(kHead) + R"(g (int64[b, s] input_ids) => (float[b, h, 6] states) {
    depth = Constant <value_int = 6> ()
    values = Constant <value_floats = [0.0, 1.0]> ()
    tokens = OneHot (input_ids, depth, values)
    start = Constant <value_ints = [0]> ()
    end = Constant <value_ints = [99]> ()
    axis = Constant <value_ints = [1]> ()
    step = Constant <value_ints = [2]> ()
    states = Slice (tokens, start, end, axis, step)
  })");
  write(folder / "decoder_model.onnx", R"(<ir_version: 8, opset_import: ["" : 17, "ai.attune" : 1]>
    g (int64[b, t] input_ids, float[b, h, 6] encoder_hidden_states) => (float[b, t, 6] logits) {
    depth = Constant <value_int = 6> ()
    values = Constant <value_floats = [0.0, 1.0]> ()
    tokens = OneHot (input_ids, depth, values)
    logits = ai.attune.Attention (tokens, encoder_hidden_states, encoder_hidden_states)
  })");
  folder.write("generation_config.json", R"({"decoder_start_token_id": 1, "eos_token_id": 5, "max_new_tokens": 2})");
  GeneratorOptions load;
  load.alignments = true;
  Generator g = Generator::load(folder.path(), load);
  GenerationOptions options = g.defaults();
  options.output_alignments = true;
  EXPECT_THAT(error_of([&] {
                g.generate({{"input_ids", ids({2, 4}, {2, 3, 4, 2, 3, 4, 2, 3})}}, options);
              }),
              testing::AllOf(HasSubstr("alignments"), HasSubstr("4 positions")));
}

}  // namespace
}  // namespace attune
