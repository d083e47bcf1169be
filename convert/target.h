// The form in which a converted model is written.
#pragma once

#include <string>
#include <string_view>

#include "graph/graph.h"

namespace attune {

enum class Target {
  kAttune,    // ai.attune nodes alone: for attune, and hosts with its plug-in
  kPortable,  // and each distinct one a model-local function too: for ONNX Runtime and onnx.reference without it
  kOnnx       // no node outside the standard domain: for any runtime
};

// "attune", "portable", "onnx". Throws Error(kInvalidArgument) for another name.
Target target_from_name(std::string_view name);

// Brings the ai.attune nodes of `model` (types inferred) into the form; for others than attune, a model of an opset
// that has no function bodies is raised to the first that has (see raise_opset.h). Throws Error(kUnsupported) that
// names the node if it has no meaning in the standard operators of the model's opset.
void apply_target(Model& model, Target target);

}  // namespace attune
