// Convolutions of ONNX Runtime's graph optimiser run through their forms in standard operators.
#include "ops/schema/convolution_forms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/io/npy.h"
#include "graph/io/reader.h"
#include "graph/io/text.h"
#include "runtime/session.h"
#include "tests/support/error_matchers.h"

namespace attune {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;

std::vector<float> run(const Model& model, const Tensor& x) {
  Session session(Plan::compile(model));
  const TensorMap out = session.run({{"x", x}});
  const auto values = out.at("y").tensor().values<float>();
  return {values.begin(), values.end()};
}

std::vector<float> fused(const std::string& attributes) {
  return run(parse_model(R"(<ir_version: 9, opset_import: ["" : 17, "com.microsoft" : 1]>
    g (float[1,1,1,4] x) => (float[1,1,1,4] y) <float[1,1,1,1] w = {2}> { y = com.microsoft.FusedConv <)" +
                         attributes + "> (x, w) }"),
             Tensor::from<float>({1, 1, 1, 4}, {-3, -0.5F, 1, 4}));
}

TEST(FusedConv, HasTheActivationsOfOnnxRuntime) {
  EXPECT_THAT(fused("activation = \"Relu\""), ElementsAre(0, 0, 2, 8));
  EXPECT_THAT(fused("activation = \"LeakyRelu\", activation_params = [0.5]"), ElementsAre(-3, -0.5F, 2, 8));
  EXPECT_THAT(fused("activation = \"Clip\", activation_params = [-2.0, 6.0]"), ElementsAre(-2, -1, 2, 6));
  EXPECT_THAT(fused("activation = \"HardSigmoid\", activation_params = [0.25, 0.5]"), ElementsAre(0, 0.25F, 1, 1));
  EXPECT_THAT(fused("activation = \"Tanh\""), Pointwise(FloatNear(1e-6F), {-0.9999877F, -0.7615942F, 0.9640276F, 1.F}));
  EXPECT_THAT(test::thrown([] { fused("activation = \"Clip\""); }),
              test::IsError(Error::Kind::kUnsupported, "FusedConv"));
}

TEST(FusedConv, AddsItsFourthInputBeforeTheActivation) {
  const Model model = parse_model(R"(<ir_version: 9, opset_import: ["" : 17, "com.microsoft" : 1]>
    g (float[1,1,1,3] x) => (float[1,1,1,3] y) <float[1,1,1,1] w = {2}, float[1] b = {1}> {
      y = com.microsoft.FusedConv <activation = "Relu"> (x, w, b, x) })");
  EXPECT_THAT(run(model, Tensor::from<float>({1, 1, 1, 3}, {-3, 0, 2})), ElementsAre(0, 1, 7));
}

// Weights (O, I, 1, 2) in blocks, by the description of the layout: the output channel of a block comes last, before it
// the input channel of a block if there are whole ones.
Tensor blocked(const Tensor& w, int64_t block) {
  const int64_t outputs = w.dim(0), channels = w.dim(1), inner = channels < block ? 1 : block;
  std::vector<float> values;
  for (int64_t ob = 0; ob < outputs; ob += block)
    for (int64_t ib = 0; ib < channels; ib += inner)
      for (int64_t tap = 0; tap < 2; ++tap)
        for (int64_t i = ib; i < ib + inner; ++i)
          for (int64_t o = ob; o < ob + block; ++o) values.push_back(w.data<float>()[(o * channels + i) * 2 + tap]);
  return Tensor::from<float>(w.shape(), values);
}

Tensor counting(const Shape& shape) {
  std::vector<float> values(static_cast<size_t>(shape.count()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((i * 7 + i / 5) % 11) - 5;
  return Tensor::from<float>(shape, values);
}

// x of 20 channels through two convolutions; in blocks if `block` isn't 0.
Model two_convolutions(int64_t block) {
  Model model = parse_model(R"(<ir_version: 9, opset_import: ["" : 17, "com.microsoft.nchwc" : 1]>
    g (float[n,20,h,w] x) => (float[n,20,h,v] y) { y = Identity(x) })");
  Graph& graph = *model.graph;
  Node* end = graph.outputs()[0]->producer();
  Value* x = graph.inputs()[0];
  const std::string where = block ? "com.microsoft.nchwc" : "";
  const int64_t held = block ? (20 + block - 1) / block * block : 20;
  if (block) x = graph.add_node(where, "ReorderInput", {x})->output();
  for (int layer = 0; layer < 2; ++layer) {
    const Tensor plain = counting({20, 20, 1, 2});
    // Channels that fill a block up are zeros.
    std::vector<float> filled(static_cast<size_t>(held * held * 2), 0);
    for (int64_t o = 0; o < 20; ++o)
      for (int64_t i = 0; i < 40; ++i) filled[static_cast<size_t>(o * held * 2 + i)] = plain.data<float>()[o * 40 + i];
    const Tensor w = Tensor::from<float>({held, held, 1, 2}, filled);
    x = graph.add_node(where, "Conv", {x, graph.add_constant(block ? blocked(w, block) : w)})->output();
  }
  if (block) x = graph.add_node(where, "ReorderOutput", {x}, 1, {{"channels", int64_t{20}}})->output();
  end->set_input(0, x);
  return model;
}

TEST(Nchwc, BlocksOfEitherSizeGiveWhatNoBlocksGive) {
  const Tensor x = counting({2, 20, 3, 5});
  const std::vector<float> expected = run(two_convolutions(0), x);
  EXPECT_EQ(run(two_convolutions(8), x), expected);
  EXPECT_EQ(run(two_convolutions(16), x), expected);
}

TEST(Nchwc, ChannelsLast) {
  const Model model = parse_model(R"(<ir_version: 9, opset_import: ["" : 17, "com.microsoft.nchwc" : 1]>
    g (float[1,2,2,4] x) => (float[1,1,1,4] y) {
      a = com.microsoft.nchwc.ReorderInput <channels_last = 1> (x)
      b = com.microsoft.nchwc.MaxPool <kernel_shape = [2, 2]> (a)
      y = com.microsoft.nchwc.ReorderOutput <channels_last = 1, channels = 4> (b) })");
  EXPECT_THAT(run(model, Tensor::from<float>({1, 2, 2, 4}, {1, 8, 3, 4, 5, 6, 7, 2, 9, 0, 1, 2, 3, 4, 5, 6})),
              ElementsAre(9, 8, 7, 6));
}

// Written by tests/runtime/data/make_nchwc.py.
TEST(Nchwc, AGraphThatOnnxRuntimeSaved) {
  const std::filesystem::path folder = std::filesystem::path(ATTUNE_SOURCE_DIR) / "tests/runtime/data/nchwc";
  const NamedTensors arrays = read_npz(folder / "case.npz");
  EXPECT_THAT(run(read_model(folder / "model.onnx"), arrays.at("x")),
              Pointwise(FloatNear(1e-5F), arrays.at("y").values<float>()));
}

}  // namespace
}  // namespace attune
