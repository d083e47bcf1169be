#include "ops/support/parts.h"

#include <fmt/format.h>

#include <vector>

#include "ops/support/copy.h"
#include "ops/support/packed_types.h"
#include "ops/support/view.h"

namespace attune {
namespace {

[[noreturn]] void fail_part(const Tensor& part, const Tensor& first, size_t axis) {
  throw Error(Error::Kind::kInvalidArgument,
              fmt::format("{} {} doesn't join {} {} along axis {}", name(part.type()), part.shape().to_string(),
                          name(first.type()), first.shape().to_string(), axis));
}

}  // namespace

Tensor part_of(const Tensor& in, size_t axis, int64_t begin, int64_t count, BufferPool* pool) {
  if (is_packed(in.type()))
    return pack_bytes(part_of(spread_to_bytes(in, pool), axis, begin, count, pool), in.type(), pool);
  Shape shape = in.shape();
  shape[axis] = count;
  const Shape strides = strides_of(in);
  const int64_t offset = count > 0 ? begin * strides[axis] : 0;
  if (auto view = contiguous_view(in, shape, strides, offset)) return std::move(*view);
  Tensor out = Tensor::allocate(in.type(), shape, pool);
  const Shape out_strides = contiguous_strides(shape);
  Loop<2> loop;
  for (size_t i = 0; i < shape.rank(); ++i) loop.add_axis(shape[i], {strides[i], out_strides[i]});
  dispatch_width(in.type(), [&]<class T>() { copy_strided(loop, elements<T>(in) + offset, mutable_elements<T>(out)); });
  return out;
}

Tensor element_of(const Tensor& in, size_t axis, int64_t index, BufferPool* pool) {
  Shape shape = in.shape();
  shape.erase(axis);
  return part_of(in, axis, index, 1, pool).reshaped(shape);
}

void copy_part(const Tensor& in, Tensor& out, size_t axis, int64_t at) {
  const Shape strides = strides_of(in), out_strides = contiguous_strides(out.shape());
  Loop<2> loop;
  for (size_t i = 0; i < in.rank(); ++i) loop.add_axis(in.dim(i), {strides[i], out_strides[i]});
  dispatch_width(in.type(), [&]<class T>() {
    copy_strided(loop, elements<T>(in), mutable_elements<T>(out) + at * out_strides[axis]);
  });
}

Tensor concatenate(std::span<const Tensor> parts, size_t axis, BufferPool* pool) {
  const Tensor& first = parts.front();
  if (parts.size() == 1) return first;
  Shape shape = first.shape();
  shape[axis] = 0;
  for (const Tensor& part : parts) {
    bool fits = part.type() == first.type() && part.rank() == first.rank();
    for (size_t i = 0; fits && i < shape.rank(); ++i) fits = i == axis || part.dim(i) == shape[i];
    if (!fits) fail_part(part, first, axis);
    shape[axis] += part.dim(axis);
  }
  const bool packed = is_packed(first.type());
  Tensor out = Tensor::allocate(packed ? DataType::kUInt8 : first.type(), shape, pool);
  int64_t at = 0;
  for (const Tensor& part : parts) {
    copy_part(packed ? spread_to_bytes(part, pool) : part, out, axis, at);
    at += part.dim(axis);
  }
  return packed ? pack_bytes(out, first.type(), pool) : out;
}

Tensor stack(std::span<const Tensor> parts, size_t axis, BufferPool* pool) {
  const Tensor& first = parts.front();
  Shape unit = first.shape();
  unit.insert(axis, 1);
  std::vector<Tensor> units;
  units.reserve(parts.size());
  for (const Tensor& part : parts) {
    if (part.type() != first.type() || part.shape() != first.shape()) fail_part(part, first, axis);
    units.push_back(part.to_contiguous(pool).reshaped(unit));
  }
  return concatenate(units, axis, pool);
}

}  // namespace attune
