// Operators without a rule of ours.
#pragma once

#include "ops/infer/node_inference.h"

namespace attune {

// Infers by ONNX's own schema; outputs stay as declared if there is none for the operator.
// A program without ONNX's library defines it to do nothing.
void infer_by_schema(NodeInference& n);

}  // namespace attune
