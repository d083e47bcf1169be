#include "ops/support/window.h"

#include <fmt/format.h>

#include "ops/kernel.h"

namespace attune {
namespace {

int64_t ceil_divide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Padding that gives ceil(in / stride) outputs.
void pad_same(Window& w, bool upper) {
  for (size_t i = 0; i < w.rank(); ++i) {
    w.out[i] = ceil_divide(w.in[i], w.stride[i]);
    const int64_t total = std::max<int64_t>(0, (w.out[i] - 1) * w.stride[i] + w.extent(i) - w.in[i]);
    w.pad_begin[i] = upper ? total / 2 : total - total / 2;
    w.pad_end[i] = total - w.pad_begin[i];
  }
}

}  // namespace

bool Window::is_pointwise() const {
  const auto all = [](const Shape& s, int64_t value) {
    return std::all_of(s.begin(), s.end(), [&](int64_t v) { return v == value; });
  };
  return all(kernel, 1) && all(stride, 1) && all(pad_begin, 0) && all(pad_end, 0);
}

WindowAttributes::WindowAttributes(const Node& node)
    : strides(node.attr_ints("strides")),
      dilations(node.attr_ints("dilations")),
      pads(node.attr_ints("pads")),
      auto_pad(node.attr_string("auto_pad", "NOTSET")),
      round_up(node.attr_int("ceil_mode", 0) != 0) {}

Shape WindowAttributes::spread(const std::vector<int64_t>& list, std::string_view name, size_t rank, int64_t fallback) {
  Shape shape;
  shape.resize(rank, fallback);
  if (list.empty()) return shape;
  if (list.size() != rank)
    throw Error(Error::Kind::kInvalidModel,
                fmt::format("attribute {}: expected {} values, got {}", name, rank, list.size()));
  constexpr int64_t kLargest = int64_t{1} << 30;
  for (const int64_t v : list)
    if (v < -kLargest || v > kLargest)
      throw Error(Error::Kind::kInvalidModel, fmt::format("attribute {}: {} is too large", name, v));
  std::copy(list.begin(), list.end(), shape.begin());
  return shape;
}

void expect_positive(const Shape& sizes, std::string_view what) {
  if (std::any_of(sizes.begin(), sizes.end(), [](int64_t v) { return v < 1; }))
    throw Error(Error::Kind::kInvalidModel, fmt::format("{} must be positive, are {}", what, sizes.to_string()));
}

Window make_window(const WindowAttributes& attributes, const Shape& in, const Shape& kernel) {
  const size_t rank = in.rank();
  Window w{in,
           kernel,
           WindowAttributes::spread(attributes.strides, "strides", rank, 1),
           WindowAttributes::spread(attributes.dilations, "dilations", rank, 1),
           {},
           {},
           in};
  w.pad_begin.resize(rank, 0);
  w.pad_end.resize(rank, 0);
  expect_positive(w.kernel, "kernel sizes");
  expect_positive(w.stride, "strides");
  expect_positive(w.dilation, "dilations");
  if (attributes.auto_pad == "SAME_UPPER" || attributes.auto_pad == "SAME_LOWER") {
    pad_same(w, attributes.auto_pad == "SAME_UPPER");
    return w;
  }
  if (attributes.auto_pad == "NOTSET") {
    const Shape pads = WindowAttributes::spread(attributes.pads, "pads", 2 * rank, 0);
    std::copy_n(pads.begin(), rank, w.pad_begin.begin());
    std::copy_n(pads.begin() + rank, rank, w.pad_end.begin());
  }
  for (size_t i = 0; i < rank; ++i) {
    const int64_t room = w.in[i] + w.pad_begin[i] + w.pad_end[i] - w.extent(i);
    if (room < 0)
      throw Error(Error::Kind::kInvalidArgument,
                  fmt::format("a window of {} does not fit into {} padded elements", w.extent(i), room + w.extent(i)));
    w.out[i] = (attributes.round_up ? ceil_divide(room, w.stride[i]) : room / w.stride[i]) + 1;
    // The last window starts inside the input or its leading padding.
    if (attributes.round_up && (w.out[i] - 1) * w.stride[i] >= w.in[i] + w.pad_begin[i]) --w.out[i];
  }
  return w;
}

namespace {

// Calls row(column offset, input offset or -1, first input index, step) for runs along the last axis.
template <class F>
void for_each_run(const Window& w, F&& f) {
  const size_t last = w.rank() - 1;
  const Shape outer = w.out.first(last);
  const int64_t width = w.out[last];
  for_each_position(w.kernel, [&](int64_t k, const Shape& tap) {
    for_each_position(outer, [&](int64_t o, const Shape& at) {
      int64_t row = 0;
      bool inside = true;
      for (size_t axis = 0; axis < last; ++axis) {
        const int64_t i = at[axis] * w.stride[axis] + tap[axis] * w.dilation[axis] - w.pad_begin[axis];
        inside = inside && i >= 0 && i < w.in[axis];
        row = row * w.in[axis] + i;
      }
      f(k * w.out_count() + o * width, inside ? row * w.in[last] : -1,
        tap[last] * w.dilation[last] - w.pad_begin[last]);
    });
  });
}

}  // namespace

template <class T>
void unfold_channel(const Window& w, const T* channel, T padding, T* columns) {
  const size_t last = w.rank() - 1;
  const int64_t width = w.out[last], size = w.in[last], step = w.stride[last];
  for_each_run(w, [&](int64_t column, int64_t row, int64_t first) {
    T* to = columns + column;
    if (row < 0) {
      std::fill_n(to, width, padding);
      return;
    }
    const T* from = channel + row;
    for (int64_t o = 0, i = first; o < width; ++o, i += step) to[o] = i >= 0 && i < size ? from[i] : padding;
  });
}

template <class T>
void fold_channel(const Window& w, const T* columns, T* channel) {
  const size_t last = w.rank() - 1;
  const int64_t width = w.out[last], size = w.in[last], step = w.stride[last];
  for_each_run(w, [&](int64_t column, int64_t row, int64_t first) {
    if (row < 0) return;
    const T* from = columns + column;
    for (int64_t o = 0, i = first; o < width; ++o, i += step)
      if (i >= 0 && i < size) channel[row + i] += from[o];
  });
}

template void unfold_channel<float>(const Window&, const float*, float, float*);
template void unfold_channel<double>(const Window&, const double*, double, double*);
template void unfold_channel<uint8_t>(const Window&, const uint8_t*, uint8_t, uint8_t*);
template void fold_channel<float>(const Window&, const float*, float*);
template void fold_channel<double>(const Window&, const double*, double*);

}  // namespace attune
