#include "ops/support/loop.h"

#include <fmt/format.h>

#include "graph/error.h"

namespace attune {

Shape contiguous_strides(const Shape& shape) {
  Shape strides;
  strides.resize(shape.rank());
  for (size_t i = shape.rank(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

Shape broadcast_strides(const Shape& shape, const Shape& to) {
  const auto fail = [&] {
    throw Error(Error::Kind::kInvalidArgument,
                fmt::format("shape {} doesn't broadcast to {}", shape.to_string(), to.to_string()));
  };
  if (shape.rank() > to.rank()) fail();
  Shape strides;
  strides.resize(to.rank(), 0);
  int64_t stride = 1;
  const size_t extra = to.rank() - shape.rank();
  for (size_t i = shape.rank(); i-- > 0;) {
    if (shape[i] == to[extra + i]) {
      strides[extra + i] = stride;
    } else if (shape[i] != 1) {
      fail();
    }
    stride *= shape[i];
  }
  return strides;
}

}  // namespace attune
