// What Loop, Scan and SequenceMap share: the outputs of a body's iterations, collected.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "ops/kernel.h"

namespace attune {

// The graph behind attribute `name`; throws Error(kInvalidModel) if there is none.
const Graph& body_of(const Node& node, std::string_view name);

// A scan output without iterations: 0 along `axis`, the other sizes as the body's output declares them (unknown: 0).
Tensor empty_scan_output(const TensorType& element, size_t axis);

}  // namespace attune
