// Feed-forward layers that run as one node where activations are rounded.
#include "runtime/feed_forward.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "graph/io/text.h"
#include "runtime/profile.h"
#include "runtime/session.h"

namespace attune {
namespace {

constexpr int64_t kInner = 32, kHidden = 256, kColumns = 48;

Value* stored(Graph& g, int64_t rows, int64_t columns, std::mt19937& rng) {
  Tensor w = Tensor::allocate(DataType::kInt8, {rows, columns});
  for (int64_t i = 0; i < w.count(); ++i) w.mutable_data<int8_t>()[i] = static_cast<int8_t>(rng());
  std::vector<float> scales(static_cast<size_t>(columns));
  for (float& s : scales) s = 0.001F * static_cast<float>(1 + rng() % 9);
  Value* scale = g.add_constant(Tensor::from<float>({columns}, scales));
  return g.add_node("", "DequantizeLinear", {g.add_constant(std::move(w)), scale}, 1, {{"axis", int64_t{1}}})->output();
}

Value* halves(Graph& g, int64_t rows, int64_t columns, std::mt19937& rng) {
  Tensor w = Tensor::allocate(DataType::kFloat16, {rows, columns});
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < w.count(); ++i) w.mutable_data<Float16>()[i] = Float16(normal(rng));
  return g.add_constant(std::move(w));
}

// y = gelu(x w1 + b) w2 + x'; hidden: what lies between is an output, too. Weights are int8, or float16.
Model layer(bool hidden, bool int8 = true) {
  Model model = parse_model(R"(<ir_version: 10, opset_import: ["" : 21, "ai.attune" : 1]>
      g (float[b,t,32] x, float[b,t,48] r) => () <float[256] b1> { })");
  std::mt19937 rng(5);
  Graph& g = *model.graph;
  std::vector<float> bias(kHidden);
  for (float& v : bias) v = 0.01F * static_cast<float>(rng() % 100);
  const auto weights = int8 ? stored : halves;
  Value* w1 = weights(g, kInner, kHidden, rng);
  Value* w2 = weights(g, kHidden, kColumns, rng);
  Node* first =
      g.add_node("ai.attune", "Linear", {g.inputs()[0], w1, g.add_constant(Tensor::from<float>({kHidden}, bias))}, 1,
                 {{"activation", std::string("gelu")}});
  Node* second = g.add_node("ai.attune", "Linear", {first->output(), w2, nullptr, g.inputs()[1]});
  g.add_output(second->output());
  if (hidden) g.add_output(first->output());
  model.metadata["attune.activations"] = int8 ? "int8" : "int16";
  g.assign_names();
  return model;
}

std::vector<float> run(const Model& model, const KernelOptions& kernels, int64_t rows, bool& joined) {
  std::mt19937 rng(7);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(rows * kInner)), r(static_cast<size_t>(rows * kColumns));
  for (float& v : x) v = normal(rng);
  for (float& v : r) v = normal(rng);
  Profile profile;
  PlanOptions options;
  options.kernels = kernels;
  SessionOptions session_options;
  session_options.profile = &profile;
  Session session(Plan::compile(model, options), session_options);
  std::vector<Datum> inputs{Tensor::from<float>({1, rows, kInner}, x), Tensor::from<float>({1, rows, kColumns}, r)},
      outputs;
  session.run(inputs, outputs);
  joined = std::any_of(profile.events().begin(), profile.events().end(),
                       [](const ProfileEvent& e) { return e.op == "ai.attune.runtime.FeedForward"; });
  const auto values = outputs[0].tensor().values<float>();
  return {values.begin(), values.end()};
}

TEST(FeedForward, GivesTheBitsOfTwoNodes) {
  for (const bool int8 : {true, false})
    for (const int64_t rows : {1, 5, 150}) {
      bool joined = false, apart = true;
      const auto one = run(layer(false, int8), {}, rows, joined), two = run(layer(true, int8), {}, rows, apart);
      EXPECT_TRUE(joined);
      EXPECT_FALSE(apart) << "an output between was lost";
      EXPECT_EQ(one, two);
    }
}

TEST(FeedForward, StaysTwoNodesWhereNothingIsRoundedOrPacked) {
  bool joined = true;
  Model model = layer(false);
  KernelOptions unpacked;
  unpacked.pack_weights = false;
  const auto plain = run(model, unpacked, 70, joined);
  EXPECT_FALSE(joined);
  model.metadata.clear();
  const auto floats = run(model, {}, 70, joined);
  EXPECT_FALSE(joined);
  ASSERT_EQ(plain.size(), floats.size());
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(plain[i], floats[i], 1e-3);
}

}  // namespace
}  // namespace attune
