// Decoders without caches get them: real exporters' decoders, their caches taken away, and small ones that don't allow
// it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "convert/add_cache.h"
#include "convert/convert.h"
#include "graph/io/reader.h"
#include "graph/io/text.h"
#include "graph/io/writer.h"
#include "passes/pass.h"
#include "tests/support/error_matchers.h"
#include "tests/support/recorded_generation.h"
#include "tests/support/temporary_folder.h"

namespace attune {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

fs::path models() { return fs::path(ATTUNE_SOURCE_DIR) / "tests/models"; }

void write_without_present(const fs::path& from, const fs::path& to) {
  Model m = read_model(from);
  for (size_t i = m.graph->outputs().size(); i-- > 0;)
    if (m.graph->outputs()[i]->name().starts_with("present")) m.graph->remove_output(i);
  m.graph->erase_unused();
  write_model(m, to);
}

class AddCache : public testing::TestWithParam<std::string> {};

TEST_P(AddCache, GeneratesWhatHuggingFaceGenerates) {
  const fs::path variant = models() / GetParam(), family = variant.parent_path();
  const test::TemporaryFolder folder;
  const fs::path source = folder / "source", result = folder / "result";
  fs::create_directories(source);
  fs::copy_file(variant / "encoder_model.onnx", source / "encoder_model.onnx");
  write_without_present(variant / "decoder_model.onnx", source / "decoder_model.onnx");
  for (const char* name : {"config.json", "generation_config.json"})
    if (fs::exists(family / name)) fs::copy_file(family / name, source / name);

  ConvertOptions options;
  options.add_cache = true;
  const Conversion c = convert(source, result, options);
  ASSERT_TRUE(c.written);
  ASSERT_EQ(c.models.size(), 3U);  // the encoder, the first step, the steps after it
  ASSERT_TRUE(fs::exists(result / "decoder_with_past_model.onnx"));
  const Model next = read_model(result / "decoder_with_past_model.onnx");
  std::vector<std::string> inputs;
  for (const Value* v : next.graph->inputs()) inputs.emplace_back(v->name());
  EXPECT_THAT(inputs, testing::Contains("past_key_values.1.encoder.value"));
  EXPECT_THAT(inputs, testing::Not(testing::Contains("encoder_hidden_states")));  // keys and values are computed once
  const auto outcome = test::run_recorded_generation(family, result);
  EXPECT_GT(outcome.runs, 0U);
  EXPECT_THAT(outcome.differences, testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Models, AddCache,
                         testing::Values("marian/optimum_sdpa_op17", "marian/optimum_eager_op14",
                                         "marian/dynamo_sdpa_op23", "marian/ortopt_bart_op14"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '/', '_');
                           return name;
                         });

// --- what doesn't allow it

// A decoder of one layer, of which lines are replaced.
std::string decoder(const std::string& self, const std::string& more = "n = Identity (a)",
                    const std::string& inputs = "") {
  return "<ir_version: 8, opset_import: [\"\" : 17, \"ai.attune\" : 1]>\n"
         "g (int64[B,T] ids, float[B,S,2] states" +
         inputs +
         ") => (float[B,T,2] y) <float[3,2] table = {1, 2, 3, 4, 5, 6}> {\n"
         "x = Gather (table, ids)\n" +
         self + "\n" + more + "\ny = ai.attune.Attention <num_heads = 1> (n, states)\n}";
}

const std::string kCausal = "a = ai.attune.Attention <num_heads = 1, causal = 1> (x)";

std::string refusal(const std::string& text) {
  try {
    add_cache(parse_model(text));
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), Error::Kind::kUnsupported);
    return e.message();
  }
  return {};
}

TEST(AddCacheTo, ACausalDecoder) {
  const Model whole = parse_model(decoder(kCausal));
  EXPECT_TRUE(lacks_cache(whole));
  const CachedDecoder parts = add_cache(whole);
  EXPECT_EQ(parts.layers, 1U);
  EXPECT_LT(compare_steps(whole, parts), 1e-6);
}

TEST(AddCacheTo, PositionsThatAreCounted) {
  const std::string positions =
      kCausal +
      "\nzero = Constant <value = int64 {0}> () one = Constant <value = int64 {1}> () shape = Shape (ids) t = Gather "
      "(shape, one) r = Range (zero, t, one) where = Constant <value = float[9,2] "
      "{1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9}> "
      "() p = Gather (where, r)";
  const Model whole = parse_model(decoder(positions, "n = Add (a, p)"));
  const CachedDecoder parts = add_cache(whole);
  EXPECT_LT(compare_steps(whole, parts), 1e-6);
}

TEST(AddCacheTo, RowsOfATableThatAreCut) {
  const std::string positions =
      kCausal +
      "\nzero = Constant <value = int64[1] {0}> () one = Constant <value = int64[1] {1}> () shape = Shape (ids) t = "
      "Gather "
      "(shape, one) where = Constant <value = float[9,2] {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9}> () p = Slice (where, "
      "zero, t, zero)";
  const Model whole = parse_model(decoder(positions, "n = Add (a, p)"));
  EXPECT_LT(compare_steps(whole, add_cache(whole)), 1e-6);
}

TEST(AddCacheTo, ABiasOfDistances) {
  const std::string bias =
      "one = Constant <value = int64 {1}> () shape = Shape (ids) t = Gather (shape, one) buckets = Constant <value = "
      "float[4,1] {1, -2, 3, 0.5}> () bias = ai.attune.RelativePositionBias <max_distance = 8, bidirectional = 0> "
      "(buckets, "
      "t, t) a = ai.attune.Attention <num_heads = 1, causal = 1> (x, , , , , , , , , bias)";
  const Model whole = parse_model(decoder(bias));
  EXPECT_LT(compare_steps(whole, add_cache(whole)), 1e-6);
}

TEST(AddCacheTo, StepsThatDifferAreFound) {
  const Model whole = parse_model(decoder(kCausal));
  CachedDecoder parts = add_cache(whole);
  // The steps after the first look another table up.
  parts.next.graph->for_each_node([](Node& n) {
    if (n.is("Gather")) n.set_input(0, n.graph()->add_constant(Tensor::from<float>({3, 2}, {2, 1, 4, 3, 6, 5})));
  });
  double difference = 0;
  try {
    difference = compare_steps(whole, parts);
  } catch (const Error& e) {
    EXPECT_THAT(e.message(), HasSubstr("prefers another token"));
    difference = 1;
  }
  EXPECT_GT(difference, 1e-2);
}

TEST(AddCacheTo, WhatDoesNotAllowItIsConvertedWithoutAndSaysWhy) {
  const test::TemporaryFolder folder;
  Model m = parse_model(decoder("a = ai.attune.Attention <num_heads = 1> (x)"));
  write_model(m, folder / "decoder.onnx");
  ConvertOptions options;
  options.add_cache = true;
  const Conversion c = convert(folder / "decoder.onnx", folder / "out.onnx", options);
  ASSERT_TRUE(c.written);
  ASSERT_EQ(c.models.size(), 1U);
  EXPECT_THAT(c.models[0].no_cache.value_or(""), HasSubstr("is not proven to be causal"));
  EXPECT_TRUE(fs::exists(folder / "out.onnx"));
}

TEST(AddCacheTo, ADecoderThatGivesKeysAndValuesHasThem) {
  std::string text = decoder("a, present_key, present_value = ai.attune.Attention <num_heads = 1, causal = 1> (x)");
  const std::string output = "(float[B,T,2] y";
  text.insert(text.find(output) + output.size(), ", float[B,1,T,2] present_key, float[B,1,T,2] present_value");
  EXPECT_THAT(refusal(text), HasSubstr("it gives what the next step needs already, as output 'present_key'"));
}

// The steps after the first go to a file that nobody named.
TEST(AddCacheTo, NoFileIsLost) {
  const test::TemporaryFolder folder;
  const fs::path model = models() / "marian/optimum_sdpa_op17/decoder_model.onnx";
  write_without_present(model, folder / "dec_with_past.onnx");
  fs::copy_file(folder / "dec_with_past.onnx", folder / "source.onnx");
  const std::string before = test::read_file(folder / "source.onnx");
  ConvertOptions options;
  options.add_cache = true;
  options.verify = false;
  for (const char* source : {"dec_with_past.onnx", "source.onnx"}) {
    EXPECT_THAT(test::thrown([&] { convert(folder / source, folder / "dec.onnx", options); }),
                test::IsError(Error::Kind::kInvalidArgument, "dec_with_past.onnx: is there already"));
    EXPECT_EQ(test::read_file(folder / "dec_with_past.onnx"), before) << source;
    EXPECT_FALSE(fs::exists(folder / "dec.onnx"));
  }
  EXPECT_TRUE(convert(folder / "source.onnx", folder / "new.onnx", options).written);
  EXPECT_TRUE(fs::exists(folder / "new_with_past.onnx"));
}

// Weights lie beside a model under a name that follows from its own, which may be that of another one's.
TEST(Conversions, TheSourcesWeightsAreNotLost) {
  const test::TemporaryFolder folder;
  WriteOptions external;
  external.external_tensor_bytes = 1;
  external.external_threshold = 0;
  Model m = parse_model(R"(<ir_version: 8, opset_import: ["" : 17]>
      g (float[4] x) => (float[4] y) <float[4] w = {1, 2, 3, 4}> { y = Add (x, w) })");
  write_model(m, folder / "out.onnx", external);
  ASSERT_TRUE(fs::exists(folder / "out.onnx.data"));
  fs::rename(folder / "out.onnx", folder / "old.onnx");
  const std::string before = test::read_file(folder / "out.onnx.data");
  ConvertOptions options;
  options.writing = external;
  EXPECT_THAT(test::thrown([&] { convert(folder / "old.onnx", folder / "out.onnx", options); }),
              test::IsError(Error::Kind::kInvalidArgument, "out.onnx.data: is the source"));
  EXPECT_EQ(test::read_file(folder / "out.onnx.data"), before);
  EXPECT_EQ(folder.entries(), 2U);
  EXPECT_TRUE(convert(folder / "old.onnx", folder / "other.onnx", options).written);
}

// Keys of one part of the sequence stand in front of those of another, as if they were a past.
TEST(AddCacheTo, StreamsOfOneSequenceAreNoCache) {
  const test::TemporaryFolder folder;
  write_without_present(models() / "prophetnet/torchscript_eager_op14/decoder_model.onnx", folder / "decoder.onnx");
  ConvertOptions options;
  options.add_cache = true;
  const Conversion c = convert(folder / "decoder.onnx", folder / "out.onnx", options);
  ASSERT_EQ(c.models.size(), 1U);
  EXPECT_THAT(c.models[0].no_cache.value_or(""), HasSubstr("a cache can't be added: node"));
}

TEST(AddCacheTo, RefusesWithTheReason) {
  EXPECT_THAT(refusal(decoder("a = ai.attune.Attention <num_heads = 1> (x)")), HasSubstr("is not proven to be causal"));
  EXPECT_THAT(refusal(decoder("a = ai.attune.Attention <num_heads = 1, causal = 1> (x, , , , , , , , , m)",
                              "n = Identity (a)", ", bool[B,1,1,K] m")),
              HasSubstr("mask over the tokens is not causality alone"));
  EXPECT_THAT(refusal(decoder(kCausal, "axis = Constant <value = int64 {1}> () n = CumSum (a, axis)")),
              HasSubstr("node of 'n' (CumSum): doesn't treat each token by itself"));
  EXPECT_THAT(refusal(decoder(kCausal, "n = Softmax <axis = 1> (a)")), HasSubstr("doesn't treat each token by itself"));
  EXPECT_THAT(refusal(decoder(kCausal, "n = Add (a, m)", ", float[B,T,2] m")),
              HasSubstr("input 'm' has the length of the tokens, too"));
  EXPECT_THAT(refusal(decoder(kCausal, "n = Add (a, b)\nb = Gather (table, m)", ", int64[B,P] m")),
              HasSubstr("several, that could be the tokens"));
  EXPECT_THAT(
      refusal(decoder(kCausal,
                      "one = Constant <value = int64 {1}> () two = Constant <value = int64 {2}> () shape = Shape "
                      "(ids) t = Gather (shape, one) r = Range (two, t, two) n = Identity (a)\nc = Cast <to = 1> "
                      "(r)\ns = ReduceSum (c)\nu = Add (n, s)")),
      HasSubstr("counts something else than the tokens"));
}

}  // namespace
}  // namespace attune
