#include "runtime/rows.h"

#include <fmt/format.h>

#include <cstring>

#include "graph/error.h"

namespace attune {
namespace {

// Copies the elements of one row; `axis` counts on.
void copy_row(const Tensor& t, size_t axis, const std::byte* from, std::byte* to, size_t element) {
  const bool inner = axis + 1 == t.rank();
  const auto size = static_cast<size_t>(t.dim(axis));
  const auto stride = static_cast<size_t>(t.strides()[axis]);
  if (inner && stride == 1) {
    std::memcpy(to, from, size * element);
    return;
  }
  // The rest is dense: one copy.
  if (static_cast<size_t>(t.shape().count(axis + 1, t.rank())) == stride) {
    bool dense = true;
    size_t expected = 1;
    for (size_t a = t.rank(); a-- > axis + 1;) {
      dense = dense && static_cast<size_t>(t.strides()[a]) == expected;
      expected *= static_cast<size_t>(t.dim(a));
    }
    if (dense) {
      std::memcpy(to, from, size * stride * element);
      return;
    }
  }
  for (size_t i = 0; i < size; ++i) {
    const size_t offset = i * stride * element;
    if (inner) {
      std::memcpy(to + offset, from + offset, element);
    } else {
      copy_row(t, axis + 1, from + offset, to + offset, element);
    }
  }
}

void check_rows(const Tensor& t, std::span<const int32_t> rows, size_t axis) {
  for (const int32_t row : rows)
    if (row < 0 || row >= t.dim(axis))
      throw Error(Error::Kind::kInvalidArgument,
                  fmt::format("row {} on axis {} of a tensor of shape {}", row, axis, t.shape().to_string()));
}

bool all_in_order(int64_t count, std::span<const int32_t> rows) {
  if (static_cast<size_t>(count) != rows.size()) return false;
  for (size_t i = 0; i < rows.size(); ++i)
    if (rows[i] != static_cast<int32_t>(i)) return false;
  return true;
}

Tensor gather_dense(const Tensor& tensor, std::span<const int32_t> rows, BufferPool* pool, size_t axis) {
  const size_t element = static_cast<size_t>(element_bits(tensor.type())) / 8;
  Shape shape = tensor.shape();
  shape[axis] = static_cast<int64_t>(rows.size());
  Tensor out = Tensor::allocate(tensor.type(), shape, pool);
  const size_t bytes = static_cast<size_t>(shape.count(axis + 1, shape.rank())) * element;
  const size_t from_rows = static_cast<size_t>(tensor.dim(axis));
  const auto outer = static_cast<size_t>(shape.count(0, axis));
  std::byte* to = out.mutable_raw();
  if (bytes == 0) return out;
  for (size_t o = 0; o < outer; ++o)
    for (const int32_t row : rows) {
      std::memcpy(to, tensor.raw() + (o * from_rows + static_cast<size_t>(row)) * bytes, bytes);
      to += bytes;
    }
  return out;
}

}  // namespace

Tensor gather_rows(const Tensor& tensor, std::span<const int32_t> rows, BufferPool* pool, size_t axis) {
  if (all_in_order(tensor.dim(axis), rows)) return tensor;
  check_rows(tensor, rows, axis);
  if (tensor.contiguous()) return gather_dense(tensor, rows, pool, axis);
  if (axis != 0) return gather_dense(tensor.to_contiguous(pool), rows, pool, axis);
  Shape shape = tensor.shape();
  shape[0] = static_cast<int64_t>(rows.size());
  const size_t element = static_cast<size_t>(element_bits(tensor.type())) / 8;
  const size_t stride = static_cast<size_t>(tensor.strides()[0]) * element;
  const size_t bytes = rows.size() * stride;
  const BufferRef buffer = pool ? pool->acquire(bytes) : BufferRef::allocate(bytes);
  for (size_t i = 0; i < rows.size(); ++i)
    copy_row(tensor, 1, tensor.raw() + static_cast<size_t>(rows[i]) * stride, buffer->data() + i * stride, element);
  std::byte* data = buffer->data();
  return Tensor::strided_view(tensor.type(), shape, tensor.strides(), buffer, data);
}

}  // namespace attune
