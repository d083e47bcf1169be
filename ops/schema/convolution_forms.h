// Convolutions and poolings that ONNX Runtime's graph optimiser writes, as standard operators.
#pragma once

#include <optional>

#include "graph/graph.h"

namespace attune {

// A function to inline in place of `node` (see graph/inline.h); nothing if its operator has no such form. Serves
// com.microsoft's FusedConv, and the operators of com.microsoft.nchwc: ReorderInput, ReorderOutput, Conv, MaxPool,
// AveragePool, GlobalMaxPool, GlobalAveragePool and Upsample.
//
// The latter hold blocks of channels one after the other, N x C/B x H x W x B. Operators between them (sums,
// activations, concatenations) know nothing of it, so that the same graph is right with channels in their usual order,
// filled up to whole blocks: only the weights have to be put back. The files don't say B: ONNX Runtime takes what suits
// the machine, 16 with AVX-512 and 8 without. Where the shapes in the graph show B, that is taken, else this machine's.
// Throws Error(kUnsupported) with the reason where the node asks for what the form doesn't give.
std::optional<Function> convolution_form(const Node& node);

}  // namespace attune
