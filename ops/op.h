// What attune knows about an operator: traits and the kernel's factory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace attune {

class Kernel;
class KernelContext;

// One operator, from `since_version` of its domain's opset on (until a later OpDef of the same name).
struct OpDef {
  std::string_view domain;  // "" is ai.onnx
  std::string_view type;
  int since_version = 1;
  // Makes the kernel of a node. Throws Error(kUnsupported) with the reason if it can't serve this node
  // (an element type, an attribute), Error(kInvalidModel) if the node breaks the specification.
  std::unique_ptr<Kernel> (*prepare)(const KernelContext&) = nullptr;
  bool commutative = false;   // two inputs that may be swapped
  bool deterministic = true;  // false: random; never folded or merged
};

// The newest OpDef whose since_version is at most `version`; null if there is none.
const OpDef* find_op(std::string_view domain, std::string_view type, int64_t version);
// All of them, sorted by domain, type, since_version.
std::span<const OpDef> all_ops();
bool is_commutative(std::string_view domain, std::string_view type);

// Each file of ops/ that is listed in set(OPS ...) defines `std::vector<OpDef> ops_in_FILE()`; CMake writes
// op_table.cpp, which calls them all.

}  // namespace attune
