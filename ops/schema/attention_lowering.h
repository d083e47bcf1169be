// ai.attune::Attention by the standard Attention operator.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace attune {

// A function to inline in place of `node` (see graph/inline.h): one ai.onnx::Attention of opset `opset` (23 or newer)
// with what it doesn't say written out around it. Exact for finite operands, in ONNX Runtime too: its kernel ignores
// causality of a single query, and takes no mask that repeats over queries. Throws Error(kUnsupported) with the reason
// where the standard operator doesn't compute the same; the function body (schemas.h) serves then.
Function lowered_attention(const Node& node, int64_t opset);

}  // namespace attune
