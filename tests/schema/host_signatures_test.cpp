// What hosts declare is what the schemas say, for every operator of ai.attune.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/defs/schema.h>

#include <set>
#include <string>

#include "ops/hosts/signatures.h"
#include "ops/infer/node_inference.h"
#include "ops/op.h"
#include "ops/schema/schemas.h"

namespace attune {
namespace {

using onnx::AttributeProto;
using onnx::OpSchema;

std::string describe(const OpSchema::FormalParameter& p, const std::string& t_name) {
  const std::string& type = p.GetTypeStr();
  const std::string kind = type == "tensor(int64)" ? "int64" : type == t_name ? "T" : type == "W" ? "weight" : "mask";
  return p.GetName() + (p.GetOption() == OpSchema::Optional ? "?: " : ": ") + kind;
}

std::string describe(const PortSignature& p) {
  static const std::map<PortType, std::string> kNames = {
      {PortType::kT, "T"}, {PortType::kMask, "mask"}, {PortType::kWeight, "weight"}, {PortType::kInt64, "int64"}};
  return std::string(p.name) + (p.optional ? "?: " : ": ") + kNames.at(p.type);
}

const std::map<AttributeSignature::Kind, AttributeProto::AttributeType> kKinds = {
    {AttributeSignature::Kind::kInt, AttributeProto::INT},
    {AttributeSignature::Kind::kFloat, AttributeProto::FLOAT},
    {AttributeSignature::Kind::kString, AttributeProto::STRING},
    {AttributeSignature::Kind::kInts, AttributeProto::INTS}};

TEST(HostSignatures, EachOperatorHasOne) {
  std::set<std::string_view> operators, declared;
  for (const OpDef& op : all_ops())
    if (op.domain == kHostedDomain) operators.insert(op.type);
  for (const OperatorSignature& s : operator_signatures()) declared.insert(s.name);
  EXPECT_EQ(declared, operators);
}

TEST(HostSignatures, AreThoseOfTheSchemas) {
  register_schemas();
  for (const OperatorSignature& s : operator_signatures()) {
    SCOPED_TRACE(s.name);
    const OpSchema* schema = onnx::OpSchemaRegistry::Schema(std::string(s.name), 1, std::string(kHostedDomain));
    ASSERT_NE(schema, nullptr);
    std::vector<std::string> inputs, outputs, declared_inputs, declared_outputs;
    for (const auto& p : schema->inputs()) inputs.push_back(describe(p, "T"));
    for (const auto& p : schema->outputs()) outputs.push_back(describe(p, "T"));
    for (const PortSignature& p : s.inputs) declared_inputs.push_back(describe(p));
    for (const PortSignature& p : s.outputs) declared_outputs.push_back(describe(p));
    EXPECT_EQ(declared_inputs, inputs);
    EXPECT_EQ(declared_outputs, outputs);
    std::map<std::string, AttributeProto::AttributeType> attributes, declared;
    for (const auto& [name, a] : schema->attributes()) attributes[name] = a.type;
    for (const AttributeSignature& a : s.attributes) declared[std::string(a.name)] = kKinds.at(a.kind);
    EXPECT_EQ(declared, attributes);
    EXPECT_EQ(schema->typeConstraintMap().at("T").first.size(), s.types.size());
  }
}

TEST(HostSignatures, TypesAndShapesAreInferredWithoutASchema) {
  for (const OperatorSignature& s : operator_signatures())
    EXPECT_TRUE(find_infer_rule(kHostedDomain, s.name)) << s.name;
}

}  // namespace
}  // namespace attune
