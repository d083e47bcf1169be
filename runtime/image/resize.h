// Pictures in other sizes.
#pragma once

#include "runtime/image/image_file.h"

namespace attune {

// Pillow's filters, with its numbers.
enum class ResizeFilter { kNearest = 0, kLanczos = 1, kBilinear = 2, kBicubic = 3, kBox = 4, kHamming = 5 };

// Bit for bit what Pillow's Image.resize gives: filters widened where the picture shrinks, first along rows, then
// along columns, weights and results rounded to integers in between. Sizes at least 1.
Image resize(const Image& image, int64_t width, int64_t height, ResizeFilter filter);

}  // namespace attune
