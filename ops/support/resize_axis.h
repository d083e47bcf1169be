// Where the output positions of a resized axis lie in the input, and with what weights. Formulas: ONNX's Resize.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace attune {

struct ResizeOptions {
  enum class Mode { kNearest, kLinear, kCubic };
  Mode mode = Mode::kNearest;
  std::string coordinates = "half_pixel";      // coordinate_transformation_mode
  std::string nearest = "round_prefer_floor";  // nearest_mode
  double cubic_a = -0.75;
  bool exclude_outside = false;
  bool antialias = false;
  double extrapolation = 0;

  // Throws Error(kInvalidModel) for unknown names.
  static ResizeOptions of(const Node& node);
  static Mode mode_from_name(std::string_view name);
};

struct ResizedAxis {
  size_t axis = 0;
  int64_t in = 0, out = 0;
  double scale = 1;
  double start = 0, end = 1;  // the region of tf_crop_and_resize, as fractions
};

// For each output position `count` input positions with weights; `outside`: extrapolated (tf_crop_and_resize).
struct AxisTaps {
  int64_t count = 1;
  std::vector<int64_t> index;
  std::vector<double> weight;
  std::vector<bool> outside;
};

AxisTaps make_taps(const ResizedAxis& axis, const ResizeOptions& options);

}  // namespace attune
