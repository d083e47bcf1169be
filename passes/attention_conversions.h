// Between ai.attune::Attention and the attention operators of other domains. Passes; each gives the number of changes.
#pragma once

#include "passes/pass.h"

namespace attune {

// ai.onnx::Attention and com.microsoft's attention operators become ai.attune::Attention.
size_t raise_attention(PassContext&);

// ai.attune::Attention becomes ai.onnx::Attention (opset 23 and newer) where that computes the same, and standard
// operators where it doesn't; other operators of ai.attune become standard operators too. For files that hold no
// operator outside of the standard domain. Throws Error(kUnsupported) that names the node where neither can be had.
size_t lower_attention(PassContext&);

}  // namespace attune
