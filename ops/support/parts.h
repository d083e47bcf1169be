// Parts of tensors along an axis, and tensors from parts.
#pragma once

#include <span>
#include <vector>

#include "graph/tensor.h"

namespace attune {

// Elements [begin, begin + count) of `in` along `axis`: a view where they are one block of memory.
Tensor part_of(const Tensor& in, size_t axis, int64_t begin, int64_t count, BufferPool* pool);
// Element `index` along `axis`, without that axis.
Tensor element_of(const Tensor& in, size_t axis, int64_t index, BufferPool* pool);
// Writes `in` into `out` from position `at` along `axis` on. Types and other sizes must agree.
void copy_part(const Tensor& in, Tensor& out, size_t axis, int64_t at);

// The parts one after another along `axis`; at least one. Throws Error(kInvalidArgument) if types or the other sizes
// differ.
Tensor concatenate(std::span<const Tensor> parts, size_t axis, BufferPool* pool);
// The same along a new axis, over parts of one shape.
Tensor stack(std::span<const Tensor> parts, size_t axis, BufferPool* pool);

}  // namespace attune
