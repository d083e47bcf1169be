// Pictures in other sizes.
#pragma once

#include "runtime/image/image_file.h"

namespace attune {

// Pillow's filters, with its numbers.
enum class ResizeFilter { kNearest = 0, kLanczos = 1, kBilinear = 2, kBicubic = 3, kBox = 4, kHamming = 5 };

// Bit for bit what Pillow's Image.resize gives: filters widened where the picture shrinks, first along rows, then
// along columns, weights and results rounded to integers in between. Sizes at least 1.
Image resize(const Image& image, int64_t width, int64_t height, ResizeFilter filter);

// The same with Pillow's `reducing_gap` (at least 1): a picture that is far larger than what is wanted is first made
// smaller by whole factors, to a size that is at least `reducing_gap` times the wanted one.
Image resize_in_two_steps(const Image& image, int64_t width, int64_t height, ResizeFilter filter, double reducing_gap);

// Numbers instead of pixels: three for each of width x height places.
struct FloatImage {
  int64_t width = 0, height = 0;
  std::vector<float> values;
};
// As PyTorch's interpolate(mode="bilinear", antialias=True): the bilinear filter above, without rounding.
FloatImage resize_bilinear(const FloatImage& image, int64_t width, int64_t height);

}  // namespace attune
