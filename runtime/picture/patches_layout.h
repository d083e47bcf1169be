// How the forms of attention over a picture are laid out. Internal to pictures.
#pragma once

#include "runtime/picture/patches.h"

namespace attune {

// Throws Error(kInvalidArgument) where sizes don't agree.
void check(const PatchPicture& picture);

// The picture once for each token, side by side and upon each other, a label below each; pixels.
struct PatchTiles {
  static constexpr int kWidth = 200, kLabel = 22, kGap = 12, kInARow = 5, kHeader = 36;

  explicit PatchTiles(const PatchPicture& picture);
  int x(size_t token) const;
  int y(size_t token) const;

  double scale;     // of the picture
  int tile_height;  // of the picture, scaled
  int width, height;
};

// A patch in pixels of the picture, and how much of the colour is laid over it.
struct ShadedPatch {
  double x = 0, y = 0, width = 0, height = 0, opacity = 0;
  float weight = 0;
};
// Of one token, relative to its strongest patch.
std::vector<ShadedPatch> shaded_patches(const PatchPicture& picture, size_t token);

}  // namespace attune
