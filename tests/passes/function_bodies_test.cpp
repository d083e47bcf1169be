// Function bodies of ai.attune's operators, in standard operators of several opsets, against the operators' kernels.
#include <gtest/gtest.h>

#include "graph/io/text.h"
#include "passes/attention_conversions.h"
#include "runtime/plan.h"
#include "runtime/session.h"
#include "tests/support/attention_cases.h"
#include "tests/support/recorded.h"

namespace attune {
namespace {

struct BodyCase {
  std::string name;
  std::string inputs;  // "float[2,3,4] x, float[4,5] w"
  std::string node;    // "y = ai.attune.Linear (x, w)"
  std::string outputs = "float[] y";
  DataType type = DataType::kFloat;
};

std::ostream& operator<<(std::ostream& out, const BodyCase& c) { return out << c.name; }

class FunctionBody : public testing::TestWithParam<BodyCase> {};

Tensor made_up(const Value& input, test::CaseGenerator& g) {
  Shape shape;
  for (const Dim& d : *input.tensor_type().shape) shape.push_back(d.constant().value());
  if (input.element_type() != DataType::kInt64) return g.normal(shape, 1, input.element_type());
  Tensor t = Tensor::allocate(DataType::kInt64, shape);
  for (int64_t i = 0; i < t.count(); ++i) t.mutable_data<int64_t>()[i] = 3 + g.below(30);
  return t;
}

TEST_P(FunctionBody, ComputesWhatTheKernelComputes) {
  const BodyCase& c = GetParam();
  const double close = c.type == DataType::kFloat ? 1e-5 : 4e-3;
  for (const int opset : {13, 17, 18, 23}) {
    const std::string text = "<ir_version: 8, opset_import: [\"\" : " + std::to_string(opset) +
                             ", \"ai.attune\" : 1]> g (" + c.inputs + ") => (" + c.outputs + ") { " + c.node + " }";
    Model model = parse_model(text);
    test::CaseGenerator g(static_cast<uint32_t>(opset));
    TensorMap inputs;
    for (const Value* v : model.graph->inputs()) inputs[std::string(v->name())] = made_up(*v, g);
    const TensorMap expected = Session(Plan::compile(model)).run(inputs);
    Report report;
    const PassOptions options;
    PassContext context{model, report, options};
    ASSERT_EQ(lower_attention(context), 1U);
    const TensorMap got = Session(Plan::compile(model)).run(inputs);
    for (const auto& [name, value] : expected)
      EXPECT_LT(test::relative_difference(got.at(name).tensor(), value.tensor()), close)
          << name << " at opset " << opset;
  }
}

std::vector<BodyCase> cases() {
  std::vector<BodyCase> all;
  const std::string sizes = "float[2,3,4] x, float[4,5] w, float[5] b, float[2,3,5] r";
  for (const std::string activation : {"none", "relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid"})
    all.push_back(
        {"linear_" + activation, sizes, "y = ai.attune.Linear <activation = \"" + activation + "\"> (x, w, b, r)"});
  all.push_back({"linear_transposed", "float[2,3,4] x, float[5,4] w", "y = ai.attune.Linear <transposed = 1> (x, w)"});
  all.push_back({"linear_float16", "float16[2,3,4] x, float16[4,5] w, float16[5] b", "y = ai.attune.Linear (x, w, b)",
                 "float16[] y", DataType::kFloat16});
  all.push_back(
      {"linear_weights_of_float16", "float[2,3,4] x, float16[4,5] w, float[5] b", "y = ai.attune.Linear (x, w, b)"});
  const std::string states = "float[2,3,8] x, float[2,3,8] r, float[8] s, float[8] b";
  for (const std::string kind : {"layer", "rms"})
    all.push_back({"normalization_" + kind, states,
                   "y, z = ai.attune.ResidualNormalization <kind = \"" + kind + "\", epsilon = 0.001> (x, r, s, b)",
                   "float[] y, float[] z"});
  all.push_back({"normalization_axis", "float[2,3,8] x, float[2,3,8] r, float[3,8] s",
                 "y = ai.attune.ResidualNormalization <axis = 1> (x, r, s)"});
  all.push_back({"normalization_alone", "float[2,3,8] x", "y = ai.attune.ResidualNormalization (x)"});
  const std::string table = "float[12,3] t, int64 q, int64 k, int64 o";
  all.push_back(
      {"position_bias", table, "y = ai.attune.RelativePositionBias <max_distance = 20, bidirectional = 1> (t, q, k)"});
  all.push_back({"position_bias_offset", table,
                 "y = ai.attune.RelativePositionBias <max_distance = 20, bidirectional = 0> (t, q, k, o)"});
  const std::string positions = "float[2,3,4] x, float[200,4] t";
  all.push_back({"position_embedding", positions, "y = ai.attune.PositionEmbedding <scale = 0.5, offset = 2> (x, t)"});
  all.push_back({"position_embedding_start", positions + ", int64[1] s", "y = ai.attune.PositionEmbedding (x, t, s)"});
  all.push_back({"position_embedding_float16", "float16[2,3,4] x, float16[200,4] t",
                 "y = ai.attune.PositionEmbedding <scale = 0.5> (x, t)", "float16[] y", DataType::kFloat16});
  return all;
}

// Padding counts from the start of the table, and in the body as in the kernel.
TEST(FunctionBody, PositionsOfTokens) {
  for (const int opset : {13, 18, 23})
    for (const char* start : {"", "s"}) {
      Model model = parse_model("<ir_version: 8, opset_import: [\"\" : " + std::to_string(opset) +
                                ", \"ai.attune\" : 1]> g (float[2,3,1] x, float[9,1] t, int64 s, int64[2,4] m) => "
                                "(float[] y) { y = ai.attune.PositionEmbedding <offset = 1> (x, t, " +
                                start + ", m) }");
      TensorMap inputs;
      inputs["x"] = Tensor::from<float>({2, 3, 1}, {10, 20, 30, 40, 50, 60});
      inputs["t"] = Tensor::from<float>({9, 1}, {0, 1, 2, 3, 4, 5, 6, 7, 8});
      inputs["s"] = Tensor::scalar(int64_t{2});
      inputs["m"] = Tensor::from<int64_t>({2, 4}, {1, 0, 1, 1, 1, 1, 1, 0});
      const std::vector<double> expected =
          *start ? std::vector<double>{11, 25, 36, 45, 56, 61} : std::vector<double>{11, 23, 34, 43, 54, 61};
      EXPECT_EQ(Session(Plan::compile(model)).run(inputs).at("y").tensor().to_double(), expected);
      Report report;
      const PassOptions options;
      PassContext context{model, report, options};
      ASSERT_EQ(lower_attention(context), 1U);
      EXPECT_EQ(Session(Plan::compile(model)).run(inputs).at("y").tensor().to_double(), expected) << opset;
    }
}

INSTANTIATE_TEST_SUITE_P(Operators, FunctionBody, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace attune
