// Attributes of ai.attune as one line, for OpenVINO's model files: "causal=1;scale=0x1p-3;score=dot;window=-1,0".
#pragma once

#include <string>
#include <string_view>

#include "graph/graph.h"
#include "ops/hosts/signatures.h"

namespace attune::openvino {

std::string to_text(const Attributes& attributes);
// Throws Error(kInvalidModel) for text that isn't such a line of attributes of `signature`.
Attributes from_text(const OperatorSignature& signature, std::string_view text);

}  // namespace attune::openvino
