// Alignment weights as outputs of models that were exported without.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "convert/alignment_weights.h"
#include "convert/convert.h"
#include "graph/io/npy.h"
#include "graph/io/reader.h"
#include "graph/io/text.h"
#include "passes/pass.h"
#include "runtime/session.h"
#include "tests/support/recorded.h"
#include "tests/support/temporary_folder.h"

namespace attune {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

fs::path marian() { return fs::path(ATTUNE_SOURCE_DIR) / "tests/models/marian/optimum_eager_op14"; }

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.message();
  }
  return {};
}

TEST(WeightsRequest, Parts) {
  EXPECT_TRUE(weights_request({"all"}).all);
  EXPECT_TRUE(weights_request({"configured"}).configured);
  EXPECT_THAT(weights_request({"0", "-1"}).heads.layers, ElementsAre(0, -1));
  EXPECT_THAT(weights_request({"1.3"}).heads.pairs, ElementsAre(std::pair<int64_t, int64_t>(1, 3)));
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{"first"}, {"1."}, {""}, {"all", "2"}, {"1", "2.0"}})
    EXPECT_THAT(message_of([&] { weights_request(wrong); }), HasSubstr("expected")) << wrong[0];
}

// The softmaxes of the source are the weights of each layer: cross-attention is every second one.
std::vector<Tensor> weights_of_source(const fs::path& file, const TensorMap& inputs) {
  Model m = read_model(file);
  size_t first = m.graph->outputs().size();
  std::vector<Value*> probabilities;
  for (Node* n : m.graph->topological_order())
    if (n->is("Softmax")) probabilities.push_back(n->output());
  for (size_t i = 1; i < probabilities.size(); i += 2) m.graph->add_output(probabilities[i]);
  std::vector<std::string> names;
  for (; first < m.graph->outputs().size(); ++first) {
    if (m.graph->outputs()[first]->name().empty())
      m.graph->outputs()[first]->set_name("weights" + std::to_string(first));
    names.emplace_back(m.graph->outputs()[first]->name());
  }
  const TensorMap outputs = Session(Plan::compile(m)).run(inputs);
  std::vector<Tensor> out;
  for (const std::string& name : names) out.push_back(outputs.at(name).tensor());
  return out;
}

// Head `head` of (batch, heads, queries, keys).
std::vector<double> head_of(const Tensor& weights, int64_t head) {
  const std::vector<double> all = weights.to_double();
  std::vector<double> out;
  const int64_t size = weights.dim(2) * weights.dim(3);
  for (int64_t b = 0; b < weights.dim(0); ++b) {
    const auto begin = all.begin() + (b * weights.dim(1) + head) * size;
    out.insert(out.end(), begin, begin + size);
  }
  return out;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

TEST(Weights, OfChosenHeadsAreThoseOfTheSource) {
  const fs::path file = marian() / "decoder_model.onnx";
  const auto recorded = test::read_recorded(test::recorded_files(file).at(1));
  const std::vector<Tensor> wanted = weights_of_source(file, recorded.inputs);
  ASSERT_EQ(wanted.size(), 2U);
  for (const Target target : {Target::kAttune, Target::kPortable, Target::kOnnx}) {
    const test::TemporaryFolder folder;
    ConvertOptions options;
    options.target = target;
    options.alignment_weights = {"1.3", "0.0", "1.1"};
    const Conversion c = convert(file, folder / "decoder_model.onnx", options);
    ASSERT_TRUE(c.written);
    EXPECT_THAT(c.models[0].alignment_weights, ElementsAre("cross_attention.0.weights", "cross_attention.1.weights"));
    const Model m = read_model(folder / "decoder_model.onnx");
    EXPECT_EQ(m.metadata.at("attune.alignment_heads"), "[[0, 0], [1, 3], [1, 1]]");
    const TensorMap outputs = Session(Plan::compile(m)).run(recorded.inputs);
    const Tensor &first = outputs.at("cross_attention.0.weights").tensor(),
                 &second = outputs.at("cross_attention.1.weights").tensor();
    EXPECT_EQ(first.dim(1), 1);
    EXPECT_EQ(second.dim(1), 2);
    EXPECT_LT(largest_difference(head_of(first, 0), head_of(wanted[0], 0)), 1e-5);
    EXPECT_LT(largest_difference(head_of(second, 0), head_of(wanted[1], 3)), 1e-5);
    EXPECT_LT(largest_difference(head_of(second, 1), head_of(wanted[1], 1)), 1e-5);
  }
}

TEST(Weights, OfAFolderGoToItsDecodersAlone) {
  const test::TemporaryFolder folder;
  ConvertOptions options;
  options.alignment_weights = {"-1"};
  const Conversion c = convert(marian(), folder / "out", options);
  ASSERT_TRUE(c.written);
  for (const ConvertedModel& m : c.models)
    EXPECT_EQ(m.alignment_weights.size(), m.source.filename() == "encoder_model.onnx" ? 0U : 1U) << m.source;
}

TEST(Weights, ConfiguredHeads) {
  const test::TemporaryFolder folder;
  const fs::path source = folder / "source";
  fs::create_directories(source);
  fs::copy_file(marian() / "decoder_model.onnx", source / "decoder_model.onnx");
  ConvertOptions options;
  options.alignment_weights = {"configured"};
  options.verify = false;
  const auto run = [&] { return convert(source, folder / "out", options); };
  EXPECT_THAT(message_of(run), HasSubstr("has no alignment_heads"));
  folder.write("source/generation_config.json", R"({"alignment_heads": [[0, 2], [1, 0]]})");
  run();
  EXPECT_EQ(read_model(folder / "out/decoder_model.onnx").metadata.at("attune.alignment_heads"), "[[0, 2], [1, 0]]");
  folder.write("source/generation_config.json", R"({"alignment_heads": [[0, 9]]})");
  EXPECT_THAT(message_of(run), HasSubstr("layer 0, head 9: the layer has 4 heads"));
  folder.write("source/generation_config.json", R"({"alignment_heads": [[5, 0]]})");
  EXPECT_THAT(message_of(run), HasSubstr("alignment of layer 5"));
}

}  // namespace
}  // namespace attune
