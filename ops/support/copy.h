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

// to[j * to_stride + i] = from[i * from_stride + j] for i, j < 4.
template <class T>
void transpose_4x4(const T* from, int64_t from_stride, T* to, int64_t to_stride) {
  typedef uint32_t Four __attribute__((vector_size(16)));
  Four a, b, c, d;
  std::memcpy(&a, from, sizeof a);
  std::memcpy(&b, from + from_stride, sizeof b);
  std::memcpy(&c, from + 2 * from_stride, sizeof c);
  std::memcpy(&d, from + 3 * from_stride, sizeof d);
  const Four ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Four cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  a = __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5);
  b = __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7);
  c = __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5);
  d = __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7);
  std::memcpy(to, &a, sizeof a);
  std::memcpy(to + to_stride, &b, sizeof b);
  std::memcpy(to + 2 * to_stride, &c, sizeof c);
  std::memcpy(to + 3 * to_stride, &d, sizeof d);
}

// The operand 1 is dense along the innermost axis, operand 0 along `dense`: copies in square tiles, so that both
// sides use whole cache lines.
template <class T>
void copy_tiled(const Loop<2>& loop, size_t dense, const T* from, T* to) {
  constexpr int64_t kTile = 16, kColumns = 8;
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
      for (int64_t c0 = 0; c0 < columns; c0 += kColumns) {
        const T* source = from + at[0] + c0 * column_stride;
        T* target = to + at[1] + c0;
        const int64_t n = std::min(kColumns, columns - c0);
        int64_t r = first;
        if constexpr (sizeof(T) == 4)
          if (n == kColumns)
            for (; r + 4 <= last; r += 4) {
              transpose_4x4(source + r, column_stride, target + r * row_stride, row_stride);
              transpose_4x4(source + r + 4 * column_stride, column_stride, target + r * row_stride + 4, row_stride);
            }
        for (; r < last; ++r)
          for (int64_t c = 0; c < n; ++c) target[r * row_stride + c] = source[c * column_stride + r];
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
