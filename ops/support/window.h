// The geometry of windows that slide over spatial axes: convolutions and poolings.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/shape.h"

namespace attune {

// Sizes for each spatial axis. Output position o and kernel position k meet input position
// o * stride + k * dilation - pad_begin.
struct Window {
  Shape in, kernel, stride, dilation, pad_begin, pad_end, out;

  size_t rank() const { return in.rank(); }
  int64_t in_count() const { return in.count(); }
  int64_t out_count() const { return out.count(); }
  int64_t kernel_count() const { return kernel.count(); }
  int64_t extent(size_t axis) const { return (kernel[axis] - 1) * dilation[axis] + 1; }  // of the dilated kernel
  // One kernel position, no padding, step 1: the output's elements are the input's.
  bool is_pointwise() const;
};

// The attributes strides, dilations, pads, auto_pad and ceil_mode of a node; lists may be empty.
struct WindowAttributes {
  explicit WindowAttributes(const Node& node);
  // A list as a shape of `rank`, `fallback` if it is empty. Throws Error(kInvalidModel) if it has another length, or
  // numbers so large that positions would overflow.
  static Shape spread(const std::vector<int64_t>& list, std::string_view name, size_t rank, int64_t fallback);

  std::vector<int64_t> strides, dilations, pads;
  std::string auto_pad;
  bool round_up;
};

// Throws Error(kInvalidModel) unless all are positive.
void expect_positive(const Shape& sizes, std::string_view what);

// The window over an input. Throws Error(kInvalidArgument) if it doesn't fit, Error(kInvalidModel) for wrong
// attributes.
Window make_window(const WindowAttributes& attributes, const Shape& in, const Shape& kernel);

// For every kernel position (row major) and each output position (row major): column[k * out_count + o] = the element
// of one channel, or `padding` outside.
template <class T>
void unfold_channel(const Window& w, const T* channel, T padding, T* columns);
// The inverse: adds each column element to where it came from.
template <class T>
void fold_channel(const Window& w, const T* columns, T* channel);

// Calls f(output position, its coordinates).
template <class F>
void for_each_position(const Shape& out, F&& f) {
  Shape at;
  at.resize(out.rank(), 0);
  const int64_t count = out.count();
  for (int64_t o = 0; o < count; ++o) {
    f(o, at);
    for (size_t axis = out.rank(); axis-- > 0;) {
      if (++at[axis] < out[axis]) break;
      at[axis] = 0;
    }
  }
}

// Calls f(index into the input, kernel position, inside) for every kernel position of the window at `at`.
template <class F>
void for_each_tap(const Window& w, const Shape& at, F&& f) {
  for_each_position(w.kernel, [&](int64_t k, const Shape& tap) {
    int64_t index = 0;
    bool inside = true;
    for (size_t axis = 0; axis < w.rank(); ++axis) {
      const int64_t i = at[axis] * w.stride[axis] + tap[axis] * w.dilation[axis] - w.pad_begin[axis];
      inside = inside && i >= 0 && i < w.in[axis];
      index = index * w.in[axis] + i;
    }
    f(index, k, inside);
  });
}

}  // namespace attune
