// The patches of Pix2Struct. Internal to the image processor.
#pragma once

#include "runtime/image/processor.h"

namespace attune {

// flattened_patches and attention_mask of a picture.
ProcessedImage flattened_patches(const Image& image, const FlattenedPatches& options);

}  // namespace attune
