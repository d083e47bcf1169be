// Materialised broadcasting, for operands whose shape a kernel has no fast path for.
#pragma once

#include "graph/tensor.h"

namespace attune {

// `tensor` spread over `shape` (ONNX unidirectional broadcasting). Throws Error(kInvalidArgument) if it doesn't.
Tensor broadcast_copy(const Tensor& tensor, const Shape& shape, BufferPool* pool);

}  // namespace attune
