// The schemas of ai.attune in ONNX's own checker, shape inference and function bodies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/checker.h>
#include <onnx/defs/parser.h>
#include <onnx/defs/schema.h>
#include <onnx/shape_inference/implementation.h>

#include "ops/schema/schemas.h"

namespace attune {
namespace {

using testing::HasSubstr;

onnx::ModelProto parse(const std::string& graph) {
  register_schemas();
  onnx::ModelProto model;
  const std::string text = "<ir_version: 8, opset_import: [\"\" : 17, \"ai.attune\" : 1]> " + graph;
  const auto status = onnx::OnnxParser::Parse(model, text.c_str());
  EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
  return model;
}

// The inferred types of values inside the model, as "name: type(d,d)" lines.
std::string inferred(const std::string& graph) {
  onnx::ModelProto model = parse(graph);
  onnx::checker::check_model(model);
  onnx::shape_inference::InferShapes(model, onnx::OpSchemaRegistry::Instance(),
                                     onnx::ShapeInferenceOptions(true, 1, false));
  std::string text;
  for (const auto& v : model.graph().value_info()) {
    text += v.name() + ": " + std::to_string(v.type().tensor_type().elem_type()) + "(";
    // Sizes that nothing is known of get symbols of ONNX's.
    for (const auto& d : v.type().tensor_type().shape().dim())
      text += (text.back() == '(' ? "" : ",") + (d.has_dim_value()                      ? std::to_string(d.dim_value())
                                                 : d.dim_param().rfind("unk__", 0) == 0 ? "?"
                                                                                        : d.dim_param());
    text += ")\n";
  }
  return text;
}

TEST(Schemas, AttentionKeepsSymbolicSizes) {
  EXPECT_EQ(inferred("g (float[B,T,8] q, float[B,S,12] k, float[12,8] wk, float[12,16] wv) => (float[B,T,16] y) {"
                     "  c, pk, pv, a = ai.attune.Attention <num_heads = 4> (q, k, , , wk, wv)  y = Identity (c) }"),
            "c: 1(B,T,16)\npk: 1(B,4,S,2)\npv: 1(B,4,S,4)\na: 1(B,4,T,S)\n");
}

TEST(Schemas, AttentionReadsHeadsOffOperands) {
  EXPECT_EQ(
      inferred("g (float16[B,4,T,8] q, float16[B,2,T,8] k, float16[B,2,P,8] pk, float16[B,2,P,8] pv) => "
               "(float16[B,4,T,8] y) {"
               "  c, pk2, pv2, a, n = ai.attune.Attention <alignment = \"monotonic\", weights_output = \"head_mean\">"
               " (q, k, , , , , , , , , , pk, pv)  y = Identity (c) }"),
      "c: 10(B,4,T,8)\npk2: 10(B,2,?,8)\npv2: 10(B,2,?,8)\na: 10(B,1,T,?)\nn: 7(B,4)\n");
}

TEST(Schemas, OtherOperators) {
  EXPECT_EQ(inferred("g (float[B,T,8] x, float[8,5] w) => (float[B,T,5] y) { z = ai.attune.Linear (x, w)"
                     "  u, s = ai.attune.ResidualNormalization (z)  y = Identity (u) }"),
            "z: 1(B,T,5)\nu: 1(B,T,5)\ns: 1(B,T,5)\n");
  EXPECT_EQ(inferred("g (float[32,H] t, int64 q, int64 k) => (float[1,H,Q,K] y) { b = ai.attune.RelativePositionBias "
                     "(t, q, k)  y = Identity (b) }"),
            "b: 1(1,H,?,?)\n");
  EXPECT_EQ(inferred("g (float[B,T,8] x, float[R,8] t) => (float[B,T,8] y) { p = ai.attune.PositionEmbedding (x, t)"
                     "  y = Identity (p) }"),
            "p: 1(B,T,8)\n");
}

TEST(Schemas, RefuseWhatIsWrong) {
  EXPECT_THAT(
      [] {
        inferred(
            "g (float[B,T] q, float[B,S,8] k) => (float[B,T,8] y) { c = ai.attune.Attention (q, k)  y = Identity (c) "
            "}");
      },
      testing::ThrowsMessage<std::exception>(HasSubstr("input 0 must have 3 or 4 dimensions, has 2")));
  EXPECT_ANY_THROW(onnx::checker::check_model(
      parse("g (float[B,T,8] q) => (float[B,T,8] y) { y = ai.attune.Attention <heads = 2> (q) }")));
}

TEST(Schemas, EveryOperatorIsDocumentedAndHasABody) {
  register_schemas();
  for (const char* type :
       {"Attention", "Linear", "ResidualNormalization", "PositionEmbedding", "RelativePositionBias"}) {
    const auto* schema = onnx::OpSchemaRegistry::Schema(type, 1, "ai.attune");
    ASSERT_TRUE(schema) << type;
    EXPECT_GT(std::string(schema->doc()).size(), 20U) << type;
    EXPECT_THAT(schema->context_dependent_function_opset_versions(), testing::UnorderedElementsAre(13, 18, 23)) << type;
    for (const auto& input : schema->inputs())
      EXPECT_FALSE(input.GetDescription().empty()) << type << " " << input.GetName();
    for (const auto& [name, attribute] : schema->attributes())
      EXPECT_FALSE(attribute.description.empty()) << type << " " << name;
  }
}

}  // namespace
}  // namespace attune
