// Keys and values that a decoder keeps from step to step, stored narrower: in ordinary ONNX, so that any runtime reads
// them.
#pragma once

#include <optional>
#include <string_view>

#include "graph/graph.h"

namespace attune {

// "float16", "bfloat16". Throws Error(kInvalidArgument) for another name.
DataType cache_type_from_name(std::string_view name);

// Inputs that ai.attune Attention nodes read as past or projected keys and values become tensors of `type` (16 bits)
// behind a Cast, and so do the outputs that give them for the next step, in the branches of an If too. The model's
// metadata (kCacheTypeKey) says so, for keys and values that attune computes once a source. Gives the number of inputs
// and outputs that changed. Throws Error(kUnsupported) if the opset can't be raised to what the Cast needs.
size_t store_caches(Model& model, DataType type);

}  // namespace attune
