// Conversion between element types.
#pragma once

#include "graph/tensor.h"
#include "ops/support/small_types.h"

namespace attune {

// `in` (contiguous) as elements of `to`, in new memory. Rules: ONNX's Cast. Floating-point values outside an integer
// type's range saturate (32 and 64 bits) or keep their low bits (narrower types); NaN gives 0. Strings are parsed;
// Throws Error(kInvalidArgument) for one that is no number, Error(kUnsupported) for complex types.
Tensor cast(const Tensor& in, DataType to, BufferPool* pool, const SmallFloatRounding& rounding = {});

}  // namespace attune
