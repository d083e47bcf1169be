// The ONNX text syntax (onnx/docs/Syntax.md), for tests and for people.
#pragma once

#include <string>
#include <string_view>

#include "graph/graph.h"

namespace attune {

// Parses a model, with <ir_version, opset_import> header. Throws Error(kInvalidModel) with line and reason.
Model parse_model(std::string_view text);
std::string to_text(Model& model);

}  // namespace attune
