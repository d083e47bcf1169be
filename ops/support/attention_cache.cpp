#include "ops/support/attention_cache.h"

#include <algorithm>
#include <cstring>

namespace attune {
namespace {

constexpr int64_t kLeastRoom = 64;

// Rows that each head of `cache` has memory for; 0 if it isn't laid out as a cache.
int64_t rows_with_memory(const Tensor& cache) {
  const int64_t batch = cache.dim(0), heads = cache.dim(1), rows = cache.dim(2), width = cache.dim(3);
  if (width == 0 || batch * heads == 0) return 0;
  const auto element = static_cast<int64_t>(storage_bytes(cache.type(), 1));
  const auto held = static_cast<int64_t>(cache.buffer()->capacity()) - (cache.raw() - cache.buffer()->data());
  const int64_t fits = held / element / width;
  if (batch * heads == 1) return cache.contiguous() || rows <= 1 || cache.strides()[2] == width ? fits : 0;
  if (cache.contiguous()) return rows;
  const Shape& strides = cache.strides();
  const int64_t head = heads > 1 ? strides[1] : strides[0];
  const int64_t room = head / width;
  const bool laid_out = head == room * width && (rows <= 1 || strides[2] == width) && (width == 1 || strides[3] == 1) &&
                        (batch == 1 || strides[0] == heads * head);
  return laid_out && room >= rows && batch * heads * room <= fits ? room : 0;
}

Tensor view_rows(const Tensor& memory, int64_t rows, int64_t room) {
  const int64_t heads = memory.dim(1), width = memory.dim(3);
  Shape shape = memory.shape();
  shape[2] = rows;
  return Tensor::strided_view(memory.type(), shape, {heads * room * width, room * width, width, 1}, memory.buffer(),
                              const_cast<std::byte*>(memory.raw()));
}

void copy_rows(const HeadsView& from, const HeadsView& to, int64_t first, size_t element) {
  const size_t bytes = static_cast<size_t>(from.width) * element;
  const auto at = [&](const HeadsView& v, int64_t b, int64_t h, int64_t t) {
    return const_cast<std::byte*>(v.data) +
           static_cast<size_t>(v.memory_row(b, t) * v.batch_stride + h * v.head_stride + t * v.row_stride) * element;
  };
  const bool packed = from.row_stride == from.width && to.row_stride == to.width && !to.index;
  for (int64_t b = 0; b < from.batch; ++b)
    for (int64_t h = 0; h < from.heads; ++h) {
      if (packed && from.length > 0) {
        std::memcpy(at(to, b, h, first), at(from, b, h, 0), bytes * static_cast<size_t>(from.length));
        continue;
      }
      for (int64_t t = 0; t < from.length; ++t) std::memcpy(at(to, b, h, first + t), at(from, b, h, t), bytes);
    }
}

// Rows of memory for `batch` rows, whose new positions lie where `index` says.
int64_t memory_rows(const Tensor& past, const RowIndex& index, int64_t batch) {
  int64_t rows = past.dim(0);
  for (int64_t b = 0; index && b < batch; ++b) rows = std::max(rows, index.at(b, index.columns) + 1);
  return rows;
}

}  // namespace

Tensor grow_cache(Tensor past, const HeadsView& added, BufferPool* pool, const RowIndex& index) {
  const int64_t old_rows = past.dim(2), rows = old_rows + added.length;
  const size_t element = storage_bytes(past.type(), 1);
  int64_t room = rows_with_memory(past);
  const int64_t batch = memory_rows(past, index, added.batch);
  Tensor grown;
  if (past.unique() && room >= rows && batch == past.dim(0)) {
    grown = view_rows(past, rows, room);
  } else {
    room = std::max(rows + kLeastRoom, 2 * old_rows);
    Shape shape = past.shape();
    shape[0] = batch;
    shape[2] = room;
    grown = view_rows(Tensor::allocate(past.type(), shape, pool), rows, room);
    copy_rows(view_heads(past, past.dim(1), "past"), view_heads(grown, grown.dim(1), "past"), 0, element);
  }
  HeadsView to = view_heads(grown, grown.dim(1), "past");
  to.index = index;
  copy_rows(added, to, old_rows, element);
  return grown;
}

Tensor view_as_cache(const HeadsView& added, const Tensor& source) {
  return Tensor::strided_view(source.type(), {added.batch, added.heads, added.length, added.width},
                              {added.batch_stride, added.head_stride, added.row_stride, 1}, source.buffer(),
                              const_cast<std::byte*>(added.data));
}

}  // namespace attune
