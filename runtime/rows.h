// Rows of tensors: what beam search does to states.
#pragma once

#include <cstdint>
#include <span>

#include "graph/tensor.h"

namespace attune {

// A tensor whose row i (along `axis`) is row rows[i] of `tensor`. A strided view with rows on axis 0 keeps its
// strides, so that a cache keeps its head-room. `tensor` itself if the rows are all of them, in order. Throws
// Error(kInvalidArgument) for rows that it doesn't have.
Tensor gather_rows(const Tensor& tensor, std::span<const int32_t> rows, BufferPool* pool, size_t axis = 0);

}  // namespace attune
