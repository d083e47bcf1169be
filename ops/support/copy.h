// Copies between strided layouts: transposing, slicing, repeating, concatenating.
#pragma once

#include <algorithm>
#include <cstring>

#include "ops/support/elements.h"
#include "ops/support/loop.h"

namespace attune {

// Strides of a tensor's elements, whether it is contiguous or not.
inline Shape strides_of(const Tensor& tensor) {
  return tensor.contiguous() ? contiguous_strides(tensor.shape()) : tensor.strides();
}

namespace detail {

template <class T>
void copy_row(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t n) {
  if (to_stride == 1 && from_stride == 1) {
    std::copy_n(from, n, to);
  } else if (to_stride == 1 && from_stride == 0) {
    std::fill_n(to, n, *from);
  } else {
    for (int64_t i = 0; i < n; ++i) to[i * to_stride] = from[i * from_stride];
  }
}

// The axis other than the innermost along which operand 0 is dense; rank() if there is none.
inline size_t dense_axis(const Loop<2>& loop) {
  for (size_t axis = 0; axis + 1 < loop.rank(); ++axis)
    if (loop.strides(axis)[0] == 1) return axis;
  return loop.rank();
}

// The operand 1 is dense along the innermost axis, operand 0 along `dense`: copies in square tiles, so that both
// sides use whole cache lines.
template <class T>
void copy_tiled(const Loop<2>& loop, size_t dense, const T* from, T* to) {
  constexpr int64_t kTile = 16;
  const size_t inner = loop.rank() - 1;
  const int64_t columns = loop.size(inner), rows = loop.size(dense);
  const int64_t column_stride = loop.strides(inner)[0], row_stride = loop.strides(dense)[1];
  Loop<2> outer;
  for (size_t axis = 0; axis < inner; ++axis)
    if (axis != dense) outer.add_axis(loop.size(axis), loop.strides(axis));
  const int64_t tiles = (rows + kTile - 1) / kTile;
  const auto tile_rows = [&](int64_t part) {
    const int64_t first = part % tiles * kTile, last = std::min(first + kTile, rows);
    outer.rows(part / tiles, part / tiles + 1, [&](const Loop<2>::Offsets& at, int64_t) {
      for (int64_t c0 = 0; c0 < columns; c0 += kTile) {
        const int64_t c1 = std::min(c0 + kTile, columns);
        for (int64_t r = first; r < last; ++r) {
          const T* source = from + at[0] + r;
          T* target = to + at[1] + r * row_stride;
          for (int64_t c = c0; c < c1; ++c) target[c] = source[c * column_stride];
        }
      }
    });
  };
  const int64_t grain = std::max<int64_t>(1, kParallelGrain / (kTile * columns));
  parallel_for(outer.count() * tiles, grain, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) tile_rows(part);
  });
}

}  // namespace detail

// to[offset of operand 1] = from[offset of operand 0] over the loop. No element of `to` may occur twice.
template <class T>
void copy_strided(const Loop<2>& loop, const T* from, T* to) {
  if (loop.count() == 0) return;
  const auto stride = loop.row_strides();
  const size_t dense = stride[0] != 1 && stride[0] != 0 && stride[1] == 1 ? detail::dense_axis(loop) : loop.rank();
  if (dense < loop.rank()) {
    detail::copy_tiled(loop, dense, from, to);
    return;
  }
  loop.parallel_rows([&](const Loop<2>::Offsets& at, int64_t n) {
    detail::copy_row(from + at[0], stride[0], to + at[1], stride[1], n);
  });
}

}  // namespace attune
