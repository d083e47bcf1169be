// Function bodies of ONNX schemas: what an operator without a kernel is computed by.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "graph/graph.h"

namespace attune {

// The body that the ONNX schema of `node`'s operator has for this node, as a function to inline (graph/inline.h);
// nothing if the schema has none or there is no schema. Bodies that depend on the types of inputs use the
// static types in the graph, and are nothing where these don't suffice.
std::optional<Function> schema_function(const Node& node, const std::map<std::string, int64_t>& opset_imports);

}  // namespace attune
