// Alignments of single heads and layers, against the softmaxes of the graph before its attentions were fused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "graph/io/reader.h"
#include "passes/pass.h"
#include "runtime/attention_taps.h"
#include "runtime/generator.h"
#include "tests/support/error_matchers.h"
#include "tests/support/temporary_folder.h"

namespace attune {
namespace {

namespace fs = std::filesystem;
using Tokens = std::vector<int64_t>;

const fs::path kMarian = fs::path(ATTUNE_SOURCE_DIR) / "tests/models/marian/optimum_eager_op14";
const Tokens kSource{53, 147, 111, 61, 27, 124, 66, 95, 99, 51, 62};

void fuse_all(Model& model) {
  Report report;
  optimize(model, report);
}

// The folder with one decoder file (merged), or two.
class Layout {
 public:
  explicit Layout(bool merged) {
    for (const auto& entry : fs::directory_iterator(kMarian)) {
      const std::string name = entry.path().filename().string();
      const bool decoder = name.starts_with("decoder") && name.ends_with(".onnx");
      if (decoder && (name == "decoder_model_merged.onnx") != merged) continue;
      if (name.ends_with(".onnx") || name.ends_with("config.json")) fs::copy(entry.path(), folder_ / name);
    }
  }
  const fs::path& path() const { return folder_.path(); }

 private:
  test::TemporaryFolder folder_;
};

Generation generate(const fs::path& folder, const HeadSelection& selection, bool each_head, int64_t beams = 3) {
  GeneratorOptions load;
  load.alignments = true;
  load.alignment_heads = selection;
  load.each_head = each_head;
  load.prepare = fuse_all;
  Generator generator = Generator::load(folder, load);
  GenerationOptions options = generator.defaults();
  options.output_alignments = true;
  options.num_beams = beams;
  options.max_new_tokens = 7;
  options.min_new_tokens = 5;
  const Tensor ids = Tensor::from<int64_t>({1, static_cast<int64_t>(kSource.size())}, kSource);
  const Tensor mask = Tensor::from<int64_t>(ids.shape(), Tokens(kSource.size(), 1));
  return generator.generate({{"input_ids", ids}, {"attention_mask", mask}}, options).at(0).at(0);
}

// The outputs of the decoder's softmaxes over source positions, layer by layer: (1, heads, target, source), for the
// tokens of `g`.
std::vector<Tensor> softmaxes(const Generation& g) {
  const auto length = static_cast<int64_t>(kSource.size());
  const Tensor ids = Tensor::from<int64_t>({1, length}, kSource);
  const Tensor mask = Tensor::from<int64_t>({1, length}, Tokens(kSource.size(), 1));
  Session encoder(Plan::compile(read_model(kMarian / "encoder_model.onnx")));
  const Datum memory = encoder.run({{"input_ids", ids}, {"attention_mask", mask}}).begin()->second;
  Model model = read_model(kMarian / "decoder_model.onnx");
  std::vector<std::string> names;
  for (Node* n : model.graph->topological_order()) {
    if (!n->is("Softmax")) continue;
    n->output()->set_name("softmax" + std::to_string(names.size()));
    names.emplace_back(n->output()->name());
    model.graph->add_output(n->output());
  }
  const Tokens given(g.tokens.begin(), g.tokens.end() - 1);
  Session decoder(Plan::compile(model));
  const auto out = decoder.run({{"input_ids", Tensor::from<int64_t>({1, static_cast<int64_t>(given.size())}, given)},
                                {"encoder_hidden_states", memory},
                                {"encoder_attention_mask", mask}},
                               names);
  std::vector<Tensor> found;
  for (const std::string& name : names) {
    const Tensor& t = out.at(name).tensor();
    if (t.shape().back() == length) found.push_back(t);
  }
  return found;
}

// Of head `head`, in the layout of the graph: (heads, target, source) with or without an axis for the batch.
float weight(const Tensor& t, size_t head, size_t row, size_t column) {
  const auto rows = static_cast<size_t>(t.dim(t.rank() - 2)), columns = static_cast<size_t>(t.shape().back());
  return t.data<float>()[(head * rows + row) * columns + column];
}

class AlignmentHeads : public testing::TestWithParam<bool> {};

TEST_P(AlignmentHeads, EachIsTheSoftmaxOfTheGraph) {
  const Layout layout(GetParam());
  const Generation g = generate(layout.path(), {}, true);
  const auto expected = softmaxes(g);
  ASSERT_EQ(expected.size(), 2U);
  ASSERT_EQ(g.heads.size(), 2 * 4U);
  for (const HeadAlignment& h : g.heads) {
    ASSERT_EQ(h.weights.size(), g.tokens.size() - 1);
    for (size_t r = 0; r < h.weights.size(); ++r)
      for (size_t c = 0; c < kSource.size(); ++c)
        ASSERT_NEAR(h.weights[r][c], weight(expected[h.layer], h.head, r, c), 1e-5) << h.layer << " " << h.head;
  }
}

TEST_P(AlignmentHeads, TheMeanIsThatOfTheSelectedOnes) {
  const Layout layout(GetParam());
  struct Case {
    HeadSelection selection;
    std::vector<std::pair<size_t, size_t>> heads;
  };
  const Case cases[] = {{{{-1}, {}, {}}, {{1, 0}, {1, 1}, {1, 2}, {1, 3}}},
                        {{{0}, {2}, {}}, {{0, 2}}},
                        {{{}, {1, 3}, {}}, {{0, 1}, {0, 3}, {1, 1}, {1, 3}}},
                        {{{}, {}, {{0, 0}, {1, 3}, {1, 2}}}, {{0, 0}, {1, 3}, {1, 2}}}};
  for (const Case& c : cases) {
    const Generation g = generate(layout.path(), c.selection, false);
    const auto expected = softmaxes(g);
    EXPECT_TRUE(g.heads.empty());
    for (size_t r = 0; r < g.alignment.size(); ++r)
      for (size_t p = 0; p < kSource.size(); ++p) {
        float sum = 0;
        for (const auto& [layer, head] : c.heads) sum += weight(expected[layer], head, r, p);
        ASSERT_NEAR(g.alignment[r][p], sum / static_cast<float>(c.heads.size()), 1e-5);
      }
  }
}

TEST_P(AlignmentHeads, OnesThatAreNotThereAreRefused) {
  const Layout layout(GetParam());
  const auto error = [&](const HeadSelection& selection, bool each_head) {
    return test::thrown([&] { generate(layout.path(), selection, each_head); });
  };
  constexpr auto kKind = Error::Kind::kInvalidArgument;
  EXPECT_THAT(error({{2}, {}, {}}, false), test::IsError(kKind, "2 layers"));
  EXPECT_THAT(error({{-3}, {}, {}}, true), test::IsError(kKind, "2 layers"));
  EXPECT_THAT(error({{}, {}, {{1, 4}}}, false), test::IsError(kKind, "4 heads"));
}

INSTANTIATE_TEST_SUITE_P(Layouts, AlignmentHeads, testing::Bool(),
                         [](const auto& info) { return info.param ? "merged" : "two"; });

TEST(AlignmentHeadsOfTheConfiguration, AreTheDefault) {
  const Layout layout(false);
  {
    std::ofstream out(layout.path() / "generation_config.json");
    out << R"({"decoder_start_token_id": 159, "eos_token_id": 0, "pad_token_id": 159, "alignment_heads": [[1, 2]]})";
  }
  const Generation g = generate(layout.path(), {}, false, 1);
  const auto expected = softmaxes(g);
  for (size_t p = 0; p < kSource.size(); ++p) EXPECT_NEAR(g.alignment[0][p], weight(expected[1], 2, 0, p), 1e-5);
}

TEST(LayerAndHead, AreNumbersWithAPointBetween) {
  using Numbers = std::vector<int64_t>;
  EXPECT_EQ(layer_and_head("2"), Numbers({2}));
  EXPECT_EQ(layer_and_head("-1"), Numbers({-1}));
  EXPECT_EQ(layer_and_head("10.3"), Numbers({10, 3}));
  for (const char* wrong : {"", ".", "1.", ".3", "1.2.3", "one", "1x", " 1", "99999999999999999999"})
    EXPECT_EQ(layer_and_head(wrong), std::nullopt) << wrong;
}

}  // namespace
}  // namespace attune
