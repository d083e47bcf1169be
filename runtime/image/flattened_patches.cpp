#include "runtime/image/flattened_patches.h"

#include <algorithm>
#include <cmath>

namespace attune {
namespace {

// Less the picture's mean, over its deviation. Deviations that are smaller than that of one different value are taken
// as that.
FloatImage standardized(const Image& image) {
  const auto count = static_cast<double>(image.pixels.size());
  double sum = 0, squares = 0;
  for (const uint8_t p : image.pixels) sum += p;
  const double mean = sum / count;
  for (const uint8_t p : image.pixels) squares += (p - mean) * (p - mean);
  const double deviation = std::max(std::sqrt(squares / count), 1 / std::sqrt(count));
  FloatImage out{image.width, image.height, {}};
  out.values.reserve(image.pixels.size());
  for (const uint8_t p : image.pixels) out.values.push_back(static_cast<float>((p - mean) / deviation));
  return out;
}

}  // namespace

ProcessedImage flattened_patches(const Image& image, const FlattenedPatches& o) {
  const auto w = static_cast<double>(image.width), h = static_cast<double>(image.height);
  const auto patch_w = static_cast<double>(o.width), patch_h = static_cast<double>(o.height);
  const double scale = std::sqrt(static_cast<double>(o.max_patches) * (patch_h / h) * (patch_w / w));
  const auto feasible = [&](double pixels, double patch) {
    return std::clamp<int64_t>(static_cast<int64_t>(scale * pixels / patch), 1, o.max_patches);
  };
  const int64_t rows = feasible(h, patch_h), columns = feasible(w, patch_w);
  const FloatImage resized = resize_bilinear(standardized(image), columns * o.width, rows * o.height);

  const int64_t depth = 2 + 3 * o.width * o.height;
  Tensor patches = Tensor::allocate(DataType::kFloat, {1, o.max_patches, depth});
  Tensor mask = Tensor::allocate(DataType::kFloat, {1, o.max_patches});
  float* to = std::fill_n(patches.mutable_data<float>(), patches.count(), 0.0F) - patches.count();
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) {
      *to++ = static_cast<float>(row + 1);
      *to++ = static_cast<float>(column + 1);
      for (int64_t y = row * o.height; y < (row + 1) * o.height; ++y)
        to = std::copy_n(resized.values.begin() + (y * resized.width + column * o.width) * 3, o.width * 3, to);
    }
  float* seen = mask.mutable_data<float>();
  std::fill(std::fill_n(seen, rows * columns, 1.0F), seen + o.max_patches, 0.0F);

  ProcessedImage out;
  out.inputs = {{"flattened_patches", std::move(patches)}, {"attention_mask", std::move(mask)}};
  out.width = w;
  out.height = h;
  out.grid_columns = static_cast<size_t>(columns);
  out.grid_rows = static_cast<size_t>(rows);
  return out;
}

}  // namespace attune
