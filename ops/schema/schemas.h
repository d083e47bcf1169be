// Schemas of the operators of ai.attune, and what they mean in standard operators.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace attune {

// Registers the onnx::OpSchemas of ai.attune with ONNX's registry. Thread-safe; does nothing the second time.
void register_schemas();

// The meaning of `node`, of domain ai.attune, in operators of the standard opset `opset` (13 or newer; the body uses
// forms that are valid from 13 on). The function has an input and an output for each position of the node's, those left
// out included; its attributes are those of the node, written in. Types and ranks of the node's inputs must be known.
// Throws Error(kUnsupported) with the reason where there is no body.
struct BodyOptions {
  // What only values that aren't finite need is in a branch. OpenVINO 2026.4 computes wrong values after an If of
  // dynamic shape; without branches the same is computed always.
  bool branches = true;
};
Function function_body(const Node& node, int64_t opset, const BodyOptions& options = {});

}  // namespace attune
