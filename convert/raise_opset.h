// A model rewritten for a later version of the standard operators.
#pragma once

#include "graph/graph.h"

namespace attune {

// Makes `model` import at least version `opset` (at most 21) of ai.onnx: nodes whose form has changed since the version
// that it imports are rewritten. Functions in the model keep their own versions. Throws Error(kUnsupported) that names
// a node whose older form has no equal in the new version.
void raise_opset(Model& model, int64_t opset);

}  // namespace attune
