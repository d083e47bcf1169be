// The operators of ai.attune as a host must declare them: ports and attributes. Hosts go through this list, so an
// operator that is in it is in every host; a test compares it with the schemas.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "graph/data_type.h"

namespace attune {

inline constexpr std::string_view kHostedDomain = "ai.attune";

enum class PortType { kT, kMask, kWeight, kInt64 };  // kMask: bool or T; kWeight: T, or half where T is float

struct PortSignature {
  std::string_view name;
  PortType type;
  bool optional;
};

struct AttributeSignature {
  enum class Kind { kInt, kFloat, kString, kInts };
  std::string_view name;
  Kind kind;
};

struct OperatorSignature {
  std::string_view name;
  std::vector<PortSignature> inputs, outputs;
  std::vector<AttributeSignature> attributes;
  std::vector<DataType> types;  // of T
};

std::span<const OperatorSignature> operator_signatures();
// Null if there is none.
const OperatorSignature* find_signature(std::string_view name);

}  // namespace attune
