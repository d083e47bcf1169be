// Products of two tensors summed over one axis, as MatMul.
#pragma once

#include <string>

#include "passes/pattern/rule.h"

namespace attune {

// A tensor with a letter for each of its axes.
struct Labelled {
  Value* value;
  std::string labels;
};

// The product with the axes `result`, summed over the one letter that both have and `result` hasn't: MatMul with the
// transposes, Squeeze and Unsqueeze it takes. With letters that all three share (a batch), each operand may have one
// letter of its own or none; an operand that has none comes first, as a row; `left` may have two, of groups of rows.
// Without them `right` may be a constant with several letters of either kind, that are one axis of a matrix then. Null
// where the sum has another form.
Value* contract(pattern::Builder& b, Labelled left, Labelled right, const std::string& result);

}  // namespace attune
