// Models that declare no size of their inputs: what operators need of each other's sizes is found, and every one is
// compared with its source, for every target.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "convert/convert.h"
#include "graph/io/text.h"
#include "graph/io/writer.h"
#include "tests/support/temporary_folder.h"

namespace attune {
namespace {

namespace fs = std::filesystem;

// Sizes of four kinds are made up, and each is taken: only those where all are 1 may be too small for an operator.
void expect_verified(const fs::path& model, Target target) {
  const test::TemporaryFolder folder;
  ConvertOptions options;
  options.target = target;
  const Conversion c = convert(model, folder / "converted.onnx", options);
  ASSERT_EQ(c.models.size(), 1U);
  const Verification& v = *c.models[0].verification;
  std::string refused;
  for (const VerifiedCase& k : v.cases) refused += k.refused.empty() ? "" : "\n" + k.sizes + ": " + k.refused;
  EXPECT_TRUE(c.written) << refused;
  EXPECT_GE(v.compared, 3U) << refused;
}

std::string name_of(Target target) {
  return target == Target::kAttune ? "Attune" : target == Target::kPortable ? "Portable" : "Onnx";
}

constexpr Target kTargets[] = {Target::kAttune, Target::kPortable, Target::kOnnx};

// ---- attention operators of exporters' optimizers, as in tests/passes/fused_operators

std::vector<std::string> fused_operators() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(fs::path(ATTUNE_SOURCE_DIR) / "tests/passes/fused_operators"))
    if (entry.path().extension() == ".onnx") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

class FusedOperator : public testing::TestWithParam<std::tuple<std::string, Target>> {};

TEST_P(FusedOperator, IsVerified) {
  const auto& [name, target] = GetParam();
  expect_verified(fs::path(ATTUNE_SOURCE_DIR) / "tests/passes/fused_operators" / (name + ".onnx"), target);
}

INSTANTIATE_TEST_SUITE_P(, FusedOperator,
                         testing::Combine(testing::ValuesIn(fused_operators()), testing::ValuesIn(kTargets)),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" + name_of(std::get<1>(info.param));
                         });

// ---- other operators, and graphs of several

struct GraphText {
  const char *name, *inputs, *nodes;
};

class Undeclared : public testing::TestWithParam<GraphText> {};

// Drops the sizes that the text gives inputs, so that only their ranks are left.
Model without_sizes(const GraphText& graph) {
  Model model = parse_model(std::string(R"(<ir_version: 10, opset_import: ["" : 23, "com.microsoft" : 1]> g ()") +
                            graph.inputs + ") => (float[n] y) {" + graph.nodes + "}");
  for (Value* input : model.graph->inputs()) {
    ValueType type = input->type();
    for (Dim& d : *type.tensor.shape) d = Dim();
    input->set_type(type);
  }
  for (Value* output : model.graph->outputs()) {
    ValueType type = output->type();
    type.tensor.shape.reset();
    output->set_type(type);
  }
  return model;
}

TEST_P(Undeclared, IsVerified) {
  const test::TemporaryFolder folder;
  Model model = without_sizes(GetParam());
  write_model(model, folder / "model.onnx");
  for (const Target target : kTargets) {
    SCOPED_TRACE(name_of(target));
    expect_verified(folder / "model.onnx", target);
  }
}

const GraphText kGraphs[] = {
    {"PackedQueriesKeysValues", "float[a,b,c,d,e] qkv", "y = com.microsoft.MultiHeadAttention <num_heads = 4> (qkv)"},
    {"PackedKeysValues", "float[a,b,c] q, float[a,b,c,d,e] kv",
     "y = com.microsoft.MultiHeadAttention <num_heads = 2> (q, kv)"},
    {"GroupedPrompt", "float[a,b,c] q, float[a,b,c] k, float[a,b,c] v, int32[a] lengths, int32[1] total",
     "y = com.microsoft.GroupQueryAttention <num_heads = 6, kv_num_heads = 2> (q, k, v, , , lengths, total)"},
    {"GroupedPacked", "float[a,b,c] q, float[a,b,c,d] pk, float[a,b,c,d] pv, int32[a] lengths, int32[1] total",
     "y = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2> (q, , , pk, pv, lengths, total)"},
    {"GroupedRotary",
     "float[a,b,c] q, float[a,b,c] k, float[a,b,c] v, float[a,b,c,d] pk, float[a,b,c,d] pv, int32[a] lengths, "
     "int32[1] total, float[a,b] cos, float[a,b] sin",
     "y = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2, do_rotary = 1> "
     "(q, k, v, pk, pv, lengths, total, cos, sin)"},
    {"Rotary", "float[a,b,c] x, int64[a,b] positions, float[a,b] cos, float[a,b] sin",
     "y = com.microsoft.RotaryEmbedding <num_heads = 3> (x, positions, cos, sin)"},
    {"Lengths", "float[a,b,c,d] q, float[a,b,c,d] k, float[a,b,c,d] v, int64[a] lengths",
     "y = Attention (q, k, v, , , , lengths)"},
    {"Gru", "float[a,b,c] x, float[a,b,c] w, float[a,b,c] r, float[a,b] b, int32[a] lengths, float[a,b,c] h",
     "y, last = GRU <hidden_size = 5> (x, w, r, b, lengths, h)"},
    {"Lstm", "float[a,b,c] x, float[a,b,c] w, float[a,b,c] r",
     R"(y = LSTM <hidden_size = 3, direction = "bidirectional"> (x, w, r))"},
    {"WrittenOut", "float[a,b,c] q, float[a,b,c] k, float[a,b,c] v, float[a,b] wq, float[a,b] wk, float[a,b] wv",
     R"(target = Constant <value_ints = [0, 0, 4, 8]> ()
        pq = MatMul (q, wq) rq = Reshape (pq, target) hq = Transpose <perm = [0, 2, 1, 3]> (rq)
        pk = MatMul (k, wk) rk = Reshape (pk, target) hk = Transpose <perm = [0, 2, 3, 1]> (rk)
        pv = MatMul (v, wv) rv = Reshape (pv, target) hv = Transpose <perm = [0, 2, 1, 3]> (rv)
        scores = MatMul (hq, hk) weights = Softmax <axis = -1> (scores) context = MatMul (weights, hv)
        t = Transpose <perm = [0, 2, 1, 3]> (context)
        merged = Constant <value_ints = [0, 0, 32]> () y = Reshape (t, merged))"},
};

INSTANTIATE_TEST_SUITE_P(, Undeclared, testing::ValuesIn(kGraphs),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace attune
