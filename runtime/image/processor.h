// Pictures to what the encoders of OCR and captioning models take.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "runtime/image/resize.h"
#include "runtime/session.h"

namespace attune {

// Pix2Struct: as many patches as fit into max_patches, of the picture in its own proportions, in its own mean and
// deviation.
struct FlattenedPatches {
  int64_t height = 16, width = 16, max_patches = 2048;
};

// Names and meanings as in preprocessor_config.json of Hugging Face's image processors (ViT, DeiT, CLIP, BLIP, BEiT,
// Donut ...).
struct ImageProcessorOptions {
  bool do_resize = true, do_center_crop = false, do_rescale = true, do_normalize = true;
  // Donut: a quarter turn where only that puts the longer edge along the longer edge of `size`; smaller until both
  // edges fit into `size`; black around it up to `size`.
  bool do_align_long_axis = false, do_thumbnail = false, do_pad = false;
  // Either width and height, or shortest_edge: the other edge keeps the proportions. Donut: both, resized by the
  // latter.
  std::optional<int64_t> width = 224, height = 224, shortest_edge;
  ResizeFilter resample = ResizeFilter::kBilinear;
  int64_t crop_width = 224, crop_height = 224;
  double rescale_factor = 1.0 / 255;
  std::vector<float> image_mean{0.5F, 0.5F, 0.5F}, image_std{0.5F, 0.5F, 0.5F};
  std::optional<FlattenedPatches> patches;  // instead of all other steps
};

// Reads preprocessor_config.json of a folder (or of the folder above it). Throws Error(kIo) where it is missing,
// Error(kUnsupported) for a processor or step that isn't known, Error(kInvalidArgument) for values that make no sense.
ImageProcessorOptions read_image_processor(const std::filesystem::path& folder);

struct ProcessedImage {
  // Of the encoder, by name: pixel_values, float (1, 3, height, width); or flattened_patches, float (1, max_patches, 2
  // + 3 * height * width of a patch: row and column from 1, pixels) and attention_mask, float (1, max_patches).
  TensorMap inputs;
  // What of the picture is seen, in its own pixels; may reach beyond its edges.
  double left = 0, top = 0, width = 0, height = 0;
  bool turned = false;  // seen after a quarter turn clockwise
  // Of flattened_patches; 0 where the encoder makes the patches.
  size_t grid_columns = 0, grid_rows = 0;
};
ProcessedImage process_image(const Image& image, const ImageProcessorOptions& options);

}  // namespace attune
