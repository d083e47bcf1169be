// Calls of model-local functions.
#pragma once

#include "ops/infer/node_inference.h"

namespace attune {

// Infers the outputs of a call through a copy of the function's body.
// Throws Error(kInvalidModel) if calls nest deeper than 32 (a function that calls itself).
void infer_call(NodeInference& n, const Function& function);

}  // namespace attune
