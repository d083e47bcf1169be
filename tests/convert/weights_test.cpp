// Weights stored narrower: what the nodes are, what they hold, and what plans compute with them.
#include "convert/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "graph/error.h"
#include "graph/io/text.h"
#include "ops/kernel.h"
#include "ops/support/small_types.h"
#include "runtime/profile.h"
#include "runtime/session.h"

namespace attune {
namespace {

size_t sz(int64_t n) { return static_cast<size_t>(n); }

Tensor random_matrix(int64_t rows, int64_t columns, unsigned seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  Tensor t = Tensor::allocate(DataType::kFloat, {rows, columns});
  for (int64_t i = 0; i < t.count(); ++i) t.mutable_data<float>()[i] = normal(rng);
  return t;
}

constexpr int64_t kInner = 64, kColumns = 48, kVocabulary = 50;

// Rows of a table times a matrix; the table, transposed, gives the result.
Model model(int64_t opset) {
  Model m = parse_model("<ir_version: 8, opset_import: [\"\" : " + std::to_string(opset) + ", \"ai.attune\" : 1]>\n" +
                        "g (int64[n] ids) => (float[n,50] y) { y = Cast <to = 1> (ids) }");
  Graph& g = *m.graph;
  Node* placeholder = g.outputs()[0]->producer();
  Value* table = g.add_constant(random_matrix(kVocabulary, kColumns, 1), "table");
  Value* down = g.add_constant(random_matrix(kColumns, kInner, 2), "down");
  Value* up = g.add_constant(random_matrix(kInner, kColumns, 3), "up");
  Node* rows = g.add_node("", "Gather", {table, g.inputs()[0]});
  Node* hidden = g.add_node("ai.attune", "Linear", {rows->output(), down}, 1, {{"activation", std::string("relu")}});
  Node* back = g.add_node("", "MatMul", {hidden->output(), up});
  Node* scores = g.add_node("ai.attune", "Linear", {back->output(), table}, 1, {{"transposed", int64_t{1}}});
  placeholder->output()->set_name({});
  g.set_output(0, scores->output());
  scores->output()->set_name("y");
  g.erase_unused();
  return m;
}

std::vector<double> run(const Model& m) {
  Session session(Plan::compile(m), {.threads = 1});
  const std::vector<int64_t> ids{3, 0, 49, 7, 7};
  return session.run({{"ids", Tensor::from<int64_t>({5}, ids)}}).at("y").tensor().to_double();
}

double relative_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    sum += (a[i] - b[i]) * (a[i] - b[i]);
    size += a[i] * a[i];
  }
  return std::sqrt(sum / size);
}

// The constant that a node widens: a Cast, a DequantizeLinear, or a Linear that takes halves as they are.
const Value* narrow_constant(const Node& n) {
  if (n.is("Cast") || n.is("DequantizeLinear")) return n.input(0);
  const bool halves = n.is("Linear", "ai.attune") && n.input(1)->constant() && is_half(n.input(1)->element_type());
  return halves ? n.input(1) : nullptr;
}

// Its values, by the definition of these.
std::vector<double> widened(const Node& n) {
  const Tensor& x = *narrow_constant(n)->constant();
  if (!n.is("DequantizeLinear")) return x.to_double();
  const auto scales = n.input(1)->constant()->to_double();
  const int64_t axis = n.attr_int("axis", 1), block = n.attr_int("block_size", 0), columns = x.dim(1);
  std::vector<double> out;
  for (int64_t r = 0; r < x.dim(0); ++r)
    for (int64_t c = 0; c < columns; ++c) {
      const int64_t i = r * columns + c;
      const int value = x.type() == DataType::kInt8
                            ? x.data<int8_t>()[i]
                            : sign_extend(packed_element(reinterpret_cast<const uint8_t*>(x.raw()), i, 4), 4);
      const int64_t s = block == 0  ? (axis == 0 ? r : c)
                        : axis == 0 ? r / block * columns + c
                                    : r * ((columns + block - 1) / block) + c / block;
      out.push_back(value * scales[sz(s)]);
    }
  return out;
}

struct Case {
  const char* type;
  int64_t group, opset;
  double weights, results;  // bounds of the relative differences
};

class StoredWeightsTest : public testing::TestWithParam<Case> {};

TEST_P(StoredWeightsTest, AreCloseAndComputeTheSame) {
  const Case c = GetParam();
  const Model before = model(14);
  Model after = model(14);
  const StoredWeights stored =
      store_weights(after, {weights_type_from_name(c.type), c.group, /*rounded_activations=*/false});
  EXPECT_EQ(stored.count, 3u);  // the table serves both its users
  EXPECT_EQ(after.opset(), c.opset);
  after.graph->verify();
  // Each matrix is close to what it was, and replaced by these values it gives the same results.
  Model widened_model = model(14);
  std::set<const Value*> found;
  after.graph->for_each_node([&](Node& n) {
    const Value* narrow = narrow_constant(n);
    if (!narrow || !found.insert(narrow).second) return;
    const auto values = widened(n);
    for (const auto& constant : widened_model.graph->constants()) {
      const Tensor& original = *constant->constant();
      if (original.shape() != narrow->constant()->shape() || !std::string(narrow->name()).starts_with(constant->name()))
        continue;
      ASSERT_LT(relative_difference(original.to_double(), values), c.weights) << constant->name();
      std::vector<float> floats(values.begin(), values.end());
      widened_model.graph->replace_all_uses(
          constant.get(), widened_model.graph->add_constant(Tensor::from<float>(original.shape(), floats)));
      break;
    }
  });
  EXPECT_EQ(found.size(), stored.count);
  EXPECT_LT(relative_difference(run(widened_model), run(after)), 1e-5);
  EXPECT_LT(relative_difference(run(before), run(after)), c.results);
}

INSTANTIATE_TEST_SUITE_P(Types, StoredWeightsTest,
                         testing::Values(Case{"float16", 64, 14, 3e-4, 1e-3}, Case{"bfloat16", 64, 14, 3e-3, 1e-2},
                                         Case{"int8", 64, 14, 1e-2, 2e-2}, Case{"int4", 32, 21, 0.11, 0.25},
                                         Case{"int4", 64, 21, 0.12, 0.25}, Case{"int4", 128, 21, 0.12, 0.25}));

TEST(StoredWeights, ActivationsMayBeRoundedToo) {
  struct Rounding {
    const char *type, *said;
    double least, most;
  };
  for (const Rounding& c : {Rounding{"int8", "int8", 1e-4, 2e-2}, Rounding{"int4", "int8", 1e-4, 2e-2},
                            Rounding{"float16", "int16", 1e-6, 3e-4}, Rounding{"bfloat16", "int16", 1e-6, 3e-4}}) {
    Model exact = model(21), rounded = model(21);
    store_weights(exact, {weights_type_from_name(c.type), 32, false});
    store_weights(rounded, {weights_type_from_name(c.type), 32, true});
    EXPECT_FALSE(exact.metadata.contains(std::string(kActivationsKey)));
    EXPECT_EQ(rounded.metadata.at(std::string(kActivationsKey)), c.said);
    const double difference = relative_difference(run(exact), run(rounded));
    EXPECT_GT(difference, c.least) << c.type;
    EXPECT_LT(difference, c.most) << c.type;
  }
}

// 16-bit weights of others' files are widened exactly, and "int16" doesn't concern integers.
TEST(StoredWeights, NothingIsRoundedThatTheFileDoesNotAllow) {
  for (const char* type : {"float16", "int8"}) {
    Model exact = model(21), said = model(21);
    store_weights(exact, {weights_type_from_name(type), 32, false});
    store_weights(said, {weights_type_from_name(type), 32, false});
    said.metadata[std::string(kActivationsKey)] = type == std::string("int8") ? "int16" : "float";
    EXPECT_EQ(run(exact), run(said)) << type;
  }
}

// T5's feed-forward layers add few, large values to a stream that no mean is subtracted from.
TEST(StoredWeights, SensitiveOnesStay16Bit) {
  Model m = parse_model(R"(<ir_version: 8, opset_import: ["" : 17, "ai.attune" : 1]>
    g (float[n,48] x) => (float[n,48] y) { y = Relu (x) })");
  Graph& g = *m.graph;
  Value* scale = g.add_constant(Tensor::from<float>({48}, std::vector<float>(48, 1.0F)));
  Node* normalized = g.add_node("ai.attune", "ResidualNormalization", {g.inputs()[0], nullptr, scale}, 1,
                                {{"kind", std::string("rms")}, {"epsilon", 1e-6F}});
  Node* in = g.add_node("ai.attune", "Linear", {normalized->output(), g.add_constant(random_matrix(48, 64, 1), "wi")},
                        1, {{"activation", std::string("relu")}});
  Node* out = g.add_node("ai.attune", "Linear",
                         {in->output(), g.add_constant(random_matrix(64, 48, 2), "wo"), nullptr, g.inputs()[0]});
  g.set_output(0, out->output());
  out->output()->set_name("y");
  const StoredWeights stored = store_weights(m, {WeightsType::kInt8});
  EXPECT_EQ(stored.count, 2u);
  EXPECT_EQ(stored.sensitive, 1u);
  EXPECT_TRUE(in->input(1)->producer()->is("DequantizeLinear"));
  ASSERT_TRUE(out->input(1)->constant());
  EXPECT_EQ(out->input(1)->element_type(), DataType::kFloat16);
}

TEST(StoredWeights, WhatFloat16CannotHoldStays) {
  Model m = model(17);
  Tensor large = random_matrix(kInner, kColumns, 5);
  large.mutable_data<float>()[7] = 1e5F;
  m.graph->for_each_node([&](Node& n) {
    if (n.is("MatMul")) n.set_input(1, m.graph->add_constant(large));
  });
  EXPECT_EQ(store_weights(m, {WeightsType::kFloat16}).count, 2u);
  EXPECT_EQ(store_weights(m, {WeightsType::kUnchanged}).count, 0u);
}

// A plan computes nothing from constants alone when it runs, wherever narrow ones stand.
TEST(StoredWeights, PlansFoldWhatNoKernelTakesNarrow) {
  Model m = parse_model(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[n,48] x, int64[k] ids) => (float[n,50] y, float[k,48] rows) {
      wide = Cast <to = 1> (x)
      turned = Transpose <perm = [1, 0]> (wide)
      y = MatMul (x, turned)
      rows = Gather (wide, ids)
    })");
  Tensor table = Tensor::allocate(DataType::kFloat16, {kVocabulary, kColumns});
  const Tensor values = random_matrix(kVocabulary, kColumns, 9);
  for (int64_t i = 0; i < table.count(); ++i) table.mutable_data<Float16>()[i] = Float16(values.data<float>()[i]);
  m.graph->for_each_node([&](Node& n) {
    if (n.is("Cast")) n.set_input(0, m.graph->add_constant(table));
  });
  Profile profile;
  Session session(Plan::compile(m), {.threads = 1, .profile = &profile});
  const std::vector<int64_t> ids{2};
  const auto out = session.run({{"x", Tensor::from<float>({1, kColumns}, std::vector<float>(kColumns, 1.0F))},
                                {"ids", Tensor::from<int64_t>({1}, ids)}});
  std::vector<std::string> ops;
  for (const auto& e : profile.events()) ops.push_back(e.op);
  EXPECT_THAT(ops, testing::UnorderedElementsAre("MatMul", "Gather"));
  double sum = 0;
  for (const double v : out.at("rows").tensor().to_double()) sum += v;
  EXPECT_NEAR(out.at("y").tensor().to_double()[2], sum, 1e-4);
}

TEST(StoredWeights, RefusesUnknownNamesAndGroups) {
  EXPECT_THROW(weights_type_from_name("int3"), Error);
  Model m = model(17);
  EXPECT_THROW(store_weights(m, {WeightsType::kInt4, 48}), Error);
}

}  // namespace
}  // namespace attune
