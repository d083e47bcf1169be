// Parts of a tensor that are one block of its memory.
#pragma once

#include <optional>

#include "graph/tensor.h"

namespace attune {

// The elements of `in` at offset + sum(index * stride) over `shape`, sharing its memory, if they are contiguous there;
// else nothing. Strings and types below a byte: nothing.
inline std::optional<Tensor> contiguous_view(const Tensor& in, const Shape& shape, const Shape& strides,
                                             int64_t offset) {
  const int bits = element_bits(in.type());
  if (bits < 8) return std::nullopt;
  int64_t expected = 1;
  for (size_t i = shape.rank(); i-- > 0; expected *= shape[i])
    if (shape[i] != 1 && strides[i] != expected) return std::nullopt;
  if (shape.count() == 0) return std::nullopt;
  const auto base = static_cast<size_t>(in.raw() - in.buffer()->data());
  return Tensor::from_buffer(in.type(), shape, in.buffer(),
                             base + static_cast<size_t>(offset) * static_cast<size_t>(bits / 8));
}

}  // namespace attune
