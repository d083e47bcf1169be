// The nodes of a model that no kernel can run, told by operator.
#pragma once

#include <string>
#include <vector>

namespace attune {

struct UnsupportedNode {
  std::string op;      // "domain.Type", or "Type" of the standard domain
  std::string node;    // "node '...' (Op)"
  std::string reason;  // "no kernel (opset 18)"
};

// One line for each operator, in the order of the nodes: how many they are, the first of them and why.
std::string describe(const std::vector<UnsupportedNode>& nodes);

}  // namespace attune
