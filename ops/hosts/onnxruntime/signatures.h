// The operators of ai.attune as a host must declare them: ports and attributes.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "graph/data_type.h"

namespace attune {

enum class PortType { kT, kMask, kInt64 };  // kMask: bool or T

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

}  // namespace attune
