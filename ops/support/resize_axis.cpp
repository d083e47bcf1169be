#include "ops/support/resize_axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "graph/error.h"

namespace attune {
namespace {

template <size_t N>
void expect_one_of(std::string_view attribute, std::string_view value, const std::array<std::string_view, N>& names) {
  if (std::find(names.begin(), names.end(), value) == names.end())
    throw Error(Error::Kind::kInvalidModel, fmt::format("unknown {} '{}'", attribute, value));
}

// The input coordinate of output position `x`.
double original(const ResizedAxis& a, const std::string& mode, int64_t position) {
  const auto x = static_cast<double>(position), in = static_cast<double>(a.in), out = static_cast<double>(a.out);
  const double length = a.scale * in;  // not rounded
  if (mode == "align_corners") return length == 1 ? 0 : x * (in - 1) / (length - 1);
  if (mode == "asymmetric") return x / a.scale;
  if (mode == "tf_crop_and_resize") {
    const double region = (a.end - a.start) * (in - 1);
    return a.start * (in - 1) + (a.out == 1 ? region / 2 : x * region / (out - 1));
  }
  if (mode == "tf_half_pixel_for_nn") return (x + 0.5) / a.scale;
  if (mode == "pytorch_half_pixel" && length == 1) return -0.5;
  const double shift = mode == "half_pixel_symmetric" ? in / 2 * (1 - out / length) : 0.0;
  return shift + (x + 0.5) / a.scale - 0.5;
}

double cubic(double a, double x) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? a * (((x - 5) * x + 8) * x - 4) : 0;
}

double kernel(const ResizeOptions& o, double x) {
  return o.mode == ResizeOptions::Mode::kCubic ? cubic(o.cubic_a, x) : std::max(0.0, 1 - std::abs(x));
}

int64_t nearest(const std::string& mode, double x) {
  const double floor = std::floor(x), fraction = x - floor;
  if (fraction == 0) return static_cast<int64_t>(floor);
  const bool up = mode == "ceil" || (mode == "round_prefer_floor" && fraction > 0.5) ||
                  (mode == "round_prefer_ceil" && fraction >= 0.5);
  return static_cast<int64_t>(floor) + (up ? 1 : 0);
}

}  // namespace

ResizeOptions::Mode ResizeOptions::mode_from_name(std::string_view name) {
  if (name == "nearest") return Mode::kNearest;
  if (name == "linear" || name == "bilinear") return Mode::kLinear;
  if (name == "cubic") return Mode::kCubic;
  throw Error(Error::Kind::kInvalidModel, fmt::format("unknown mode '{}'", name));
}

ResizeOptions ResizeOptions::of(const Node& node) {
  ResizeOptions o;
  o.mode = mode_from_name(node.attr_string("mode", "nearest"));
  o.coordinates = node.attr_string("coordinate_transformation_mode", "half_pixel");
  o.nearest = node.attr_string("nearest_mode", "round_prefer_floor");
  o.cubic_a = static_cast<double>(node.attr_float("cubic_coeff_a", -0.75F));
  o.exclude_outside = node.attr_int("exclude_outside", 0) != 0;
  o.antialias = node.attr_int("antialias", 0) != 0;
  o.extrapolation = static_cast<double>(node.attr_float("extrapolation_value", 0.0F));
  expect_one_of(
      "coordinate_transformation_mode", o.coordinates,
      std::array<std::string_view, 7>{"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                                      "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"});
  expect_one_of("nearest_mode", o.nearest,
                std::array<std::string_view, 4>{"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
  return o;
}

AxisTaps make_taps(const ResizedAxis& a, const ResizeOptions& o) {
  AxisTaps taps;
  const int64_t last = a.in - 1;
  const double reach = o.mode == ResizeOptions::Mode::kCubic ? 2 : 1;
  // Antialiasing stretches the kernel over the input positions that one output position stands for.
  const double shrink = o.antialias ? std::min(1.0, a.scale) : 1.0;
  const auto first = static_cast<int64_t>(std::floor(-reach / shrink)) + 1;
  taps.count = o.mode == ResizeOptions::Mode::kNearest ? 1 : 2 - 2 * first;
  for (int64_t position = 0; position < a.out; ++position) {
    const double x = original(a, o.coordinates, position);
    taps.outside.push_back(o.coordinates == "tf_crop_and_resize" && (x < 0 || x > static_cast<double>(last)));
    if (o.mode == ResizeOptions::Mode::kNearest) {
      taps.index.push_back(std::clamp<int64_t>(nearest(o.nearest, x), 0, last));
      taps.weight.push_back(1);
      continue;
    }
    const double floor = std::floor(x), ratio = x - floor;
    double sum = 0;
    for (int64_t i = first; i < first + taps.count; ++i) {
      const int64_t index = static_cast<int64_t>(floor) + i;
      double weight = kernel(o, shrink * (static_cast<double>(i) - ratio));
      if (o.exclude_outside && (index < 0 || index > last)) weight = 0;
      sum += weight;
      taps.index.push_back(std::clamp<int64_t>(index, 0, last));
      taps.weight.push_back(weight);
    }
    if (o.exclude_outside || o.antialias)
      for (int64_t i = 1; i <= taps.count && sum != 0; ++i)
        taps.weight[taps.weight.size() - static_cast<size_t>(i)] /= sum;
  }
  return taps;
}

}  // namespace attune
