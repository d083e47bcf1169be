#include "ops/support/broadcast_copy.h"

#include <fmt/format.h>

#include <cstring>

namespace attune {

Tensor broadcast_copy(const Tensor& tensor, const Shape& shape, BufferPool* pool) {
  if (tensor.shape() == shape) return tensor;
  const Tensor from = tensor.to_contiguous(pool);
  const size_t rank = shape.rank();
  Shape strides;
  strides.resize(rank, 0);
  int64_t step = 1;
  bool fits = from.rank() <= rank;
  for (size_t i = 0; fits && i < from.rank(); ++i) {
    const int64_t size = from.dim(from.rank() - 1 - i);
    fits = size == 1 || size == shape[rank - 1 - i];
    strides[rank - 1 - i] = size == 1 ? 0 : step;
    step *= size;
  }
  if (!fits)
    throw Error(Error::Kind::kInvalidArgument,
                fmt::format("shape {} does not broadcast to {}", from.shape().to_string(), shape.to_string()));
  Tensor to = Tensor::allocate(from.type(), shape, pool);
  const size_t width = static_cast<size_t>(element_bits(from.type())) / 8;
  Shape index;
  index.resize(rank, 0);
  const int64_t count = shape.count();
  int64_t offset = 0;
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to.mutable_raw() + static_cast<size_t>(i) * width, from.raw() + static_cast<size_t>(offset) * width,
                width);
    for (size_t axis = rank; axis-- > 0;) {
      offset += strides[axis];
      if (++index[axis] < shape[axis]) break;
      offset -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
  return to;
}

}  // namespace attune
