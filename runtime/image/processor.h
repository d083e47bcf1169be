// Pictures to what the encoders of OCR and captioning models take.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "graph/tensor.h"
#include "runtime/image/resize.h"

namespace attune {

// Names and meanings as in preprocessor_config.json of Hugging Face's image processors (ViT, DeiT, CLIP, BLIP, BEiT
// ...).
struct ImageProcessorOptions {
  bool do_resize = true, do_center_crop = false, do_rescale = true, do_normalize = true;
  // Either width and height, or one edge: the other keeps the proportions.
  std::optional<int64_t> width = 224, height = 224, shortest_edge;
  ResizeFilter resample = ResizeFilter::kBilinear;
  int64_t crop_width = 224, crop_height = 224;
  double rescale_factor = 1.0 / 255;
  std::vector<float> image_mean{0.5F, 0.5F, 0.5F}, image_std{0.5F, 0.5F, 0.5F};
};

// Reads preprocessor_config.json of a folder (or of the folder above it). Throws Error(kIo) where it is missing,
// Error(kUnsupported) for a processor or step that isn't known, Error(kInvalidArgument) for values that make no sense.
ImageProcessorOptions read_image_processor(const std::filesystem::path& folder);

struct ProcessedImage {
  Tensor pixel_values;  // float (1, 3, height, width)
  // What of the picture is seen, in its own pixels; may reach beyond its edges.
  double left = 0, top = 0, width = 0, height = 0;
};
ProcessedImage process_image(const Image& image, const ImageProcessorOptions& options);

}  // namespace attune
