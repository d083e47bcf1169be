// The value of Constant nodes, which have seven attributes for it.
#pragma once

#include <optional>

#include "graph/graph.h"

namespace attune {

// The value that a Constant node gives, whichever attribute has it; nothing if it is sparse, or an attribute of a
// function that isn't known yet.
std::optional<Tensor> constant_node_value(const Node& node);

// Has Constant nodes give their value as the attribute `value`, which is what Value::constant() looks at.
void normalize_constant(Node& node);

}  // namespace attune
