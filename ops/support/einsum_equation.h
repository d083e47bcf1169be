// The equation of Einsum, resolved for operands of given ranks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/shape.h"

namespace attune {

// Axis labels of each operand and of the result. Letters are their character codes; the axes that an ellipsis stands
// for are numbered from the last one: -1, -2 ...
struct EinsumEquation {
  std::vector<std::vector<int>> operands;
  std::vector<int> result;

  // Throws Error(kInvalidModel) for a malformed equation, Error(kInvalidArgument) where it doesn't fit the ranks.
  static EinsumEquation resolve(std::string_view equation, const std::vector<size_t>& ranks);
};

}  // namespace attune
