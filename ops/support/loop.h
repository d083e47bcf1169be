// Nested loops over N operands with their own strides: broadcasting, transposing, slicing.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "graph/shape.h"
#include "ops/support/parallel.h"

namespace attune {

// Axes are added from the outermost to the innermost and merged where all operands allow it, so that the last one is as
// long as it can be. Strides and offsets are in elements. No memory is allocated.
template <size_t N>
class Loop {
 public:
  using Offsets = std::array<int64_t, N>;
  static constexpr size_t kMaxAxes = 2 * Shape::kMaxRank;

  void add_axis(int64_t size, const Offsets& strides) {
    count_ *= size;
    if (size == 1) return;
    if (rank_ > 0 && merges(size, strides)) {
      sizes_[rank_ - 1] *= size;
      strides_[rank_ - 1] = strides;
      return;
    }
    sizes_[rank_] = size;
    strides_[rank_++] = strides;
  }

  int64_t count() const { return count_; }
  size_t rank() const { return rank_; }
  int64_t size(size_t axis) const { return sizes_[axis]; }
  // Sizes and strides of the innermost axis.
  int64_t row_size() const { return rank_ ? sizes_[rank_ - 1] : 1; }
  Offsets row_strides() const { return rank_ ? strides_[rank_ - 1] : Offsets{}; }
  const Offsets& strides(size_t axis) const { return strides_[axis]; }

  // Calls f(offsets, n) for runs of n elements of innermost rows that cover the elements [begin, end).
  template <class F>
  void rows(int64_t begin, int64_t end, F&& f) const {
    if (begin >= end) return;
    Offsets at{};
    if (rank_ == 0) {
      f(at, int64_t{1});
      return;
    }
    std::array<int64_t, kMaxAxes> index;
    int64_t rest = begin;
    for (size_t axis = rank_; axis-- > 0; rest /= sizes_[axis]) {
      index[axis] = rest % sizes_[axis];
      move(at, axis, index[axis]);
    }
    const size_t inner = rank_ - 1;
    for (;;) {
      const int64_t n = std::min(end - begin, sizes_[inner] - index[inner]);
      f(at, n);
      begin += n;
      if (begin == end) return;
      move(at, inner, -index[inner]);
      index[inner] = 0;
      for (size_t axis = inner; axis-- > 0;) {
        move(at, axis, 1);
        if (++index[axis] < sizes_[axis]) break;
        move(at, axis, -sizes_[axis]);
        index[axis] = 0;
      }
    }
  }

  // The same over all elements, on several threads if they are many.
  template <class F>
  void parallel_rows(F&& f, int64_t grain = kParallelGrain) const {
    parallel_for(count_, grain, [&](int64_t begin, int64_t end) { rows(begin, end, f); });
  }

 private:
  bool merges(int64_t size, const Offsets& strides) const {
    for (size_t i = 0; i < N; ++i)
      if (strides_[rank_ - 1][i] != strides[i] * size) return false;
    return true;
  }
  void move(Offsets& at, size_t axis, int64_t steps) const {
    for (size_t i = 0; i < N; ++i) at[i] += steps * strides_[axis][i];
  }

  size_t rank_ = 0;
  int64_t count_ = 1;
  std::array<int64_t, kMaxAxes> sizes_;
  std::array<Offsets, kMaxAxes> strides_;
};

// Strides of a contiguous tensor, in elements.
Shape contiguous_strides(const Shape& shape);
// Strides that read a contiguous tensor of `shape` as if it were broadcast to `to`: 0 along repeated axes.
// Throws Error(kInvalidArgument) if `shape` doesn't broadcast to `to`.
Shape broadcast_strides(const Shape& shape, const Shape& to);

// A loop over `out` that reads each of the contiguous operands broadcast to it. Innermost strides are 0 or 1.
template <size_t N>
Loop<N> broadcast_loop(const Shape& out, const std::array<const Shape*, N>& operands) {
  std::array<Shape, N> strides;
  for (size_t i = 0; i < N; ++i) strides[i] = broadcast_strides(*operands[i], out);
  Loop<N> loop;
  for (size_t axis = 0; axis < out.rank(); ++axis) {
    typename Loop<N>::Offsets at;
    for (size_t i = 0; i < N; ++i) at[i] = strides[i][axis];
    loop.add_axis(out[axis], at);
  }
  return loop;
}

}  // namespace attune
