#include "ops/hosts/signatures.h"

namespace attune {
namespace {

using Kind = AttributeSignature::Kind;
constexpr auto T = PortType::kT;
constexpr auto kInt64 = PortType::kInt64;
const std::vector<DataType> kFloats = {DataType::kFloat, DataType::kFloat16, DataType::kBFloat16, DataType::kDouble};

OperatorSignature attention() {
  return {"Attention",
          {{"query", T, false},
           {"key", T, true},
           {"value", T, true},
           {"w_query", T, true},
           {"w_key", T, true},
           {"w_value", T, true},
           {"b_query", T, true},
           {"b_key", T, true},
           {"b_value", T, true},
           {"mask", PortType::kMask, true},
           {"key_lengths", kInt64, true},
           {"past_key", T, true},
           {"past_value", T, true},
           {"w_score", T, true},
           {"b_score", T, true},
           {"position", kInt64, true},
           {"query_position", kInt64, true},
           {"draw", kInt64, true}},
          {{"context", T, false},
           {"present_key", T, true},
           {"present_value", T, true},
           {"weights", T, true},
           {"next_position", kInt64, true}},
          {{"num_heads", Kind::kInt},
           {"num_kv_heads", Kind::kInt},
           {"score", Kind::kString},
           {"scale", Kind::kFloat},
           {"softcap", Kind::kFloat},
           {"causal", Kind::kInt},
           {"window", Kind::kInts},
           {"alignment", Kind::kString},
           {"sample", Kind::kInt},
           {"seed", Kind::kInt},
           {"chunk", Kind::kInt},
           {"empty_row", Kind::kString},
           {"weights_output", Kind::kString}},
          kFloats};
}

}  // namespace

std::span<const OperatorSignature> operator_signatures() {
  static const std::vector<OperatorSignature> all = {
      attention(),
      {"Linear",
       {{"x", T, false}, {"w", PortType::kWeight, false}, {"bias", T, true}, {"residual", T, true}},
       {{"y", T, false}},
       {{"activation", Kind::kString}, {"transposed", Kind::kInt}},
       kFloats},
      {"ResidualNormalization",
       {{"x", T, false}, {"residual", T, true}, {"scale", T, true}, {"bias", T, true}},
       {{"y", T, false}, {"sum", T, true}},
       {{"kind", Kind::kString}, {"epsilon", Kind::kFloat}, {"axis", Kind::kInt}},
       kFloats},
      {"PositionEmbedding",
       {{"x", T, false}, {"table", T, false}, {"start", kInt64, true}, {"tokens", kInt64, true}},
       {{"y", T, false}},
       {{"scale", Kind::kFloat}, {"offset", Kind::kInt}},
       kFloats},
      {"RelativePositionBias",
       {{"table", T, false}, {"query_length", kInt64, false}, {"key_length", kInt64, false}, {"offset", kInt64, true}},
       {{"bias", T, false}},
       {{"max_distance", Kind::kInt}, {"bidirectional", Kind::kInt}},
       kFloats},
  };
  return all;
}

const OperatorSignature* find_signature(std::string_view name) {
  for (const OperatorSignature& s : operator_signatures())
    if (s.name == name) return &s;
  return nullptr;
}

}  // namespace attune
