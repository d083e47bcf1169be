#include "runtime/image/image_file.h"
#include "runtime/image/resize.h"
#include "runtime/picture/canvas.h"
#include "runtime/picture/patches_layout.h"

namespace attune {

std::string patches_png(const PatchPicture& p) {
  check(p);
  const PatchTiles tiles(p);
  const Image picture =
      resize(decode_image(p.file_bytes), PatchTiles::kWidth, tiles.tile_height, ResizeFilter::kBilinear);
  const double x_scale = static_cast<double>(PatchTiles::kWidth) / static_cast<double>(p.width);
  const double y_scale = static_cast<double>(tiles.tile_height) / static_cast<double>(p.height);
  Canvas canvas(tiles.width, tiles.height);
  canvas.write(PatchTiles::kGap, 17, p.title, false, true);
  for (size_t t = 0; t < p.tokens.size(); ++t) {
    canvas.begin_picture(tiles.x(t), tiles.y(t), picture.pixels.data(), PatchTiles::kWidth, tiles.tile_height);
    for (const ShadedPatch& s : shaded_patches(p, t))
      canvas.fill(s.x * x_scale, s.y * y_scale, s.width * x_scale, s.height * y_scale, {0xe6, 0, 0x4c}, s.opacity);
    canvas.end_picture();
    const int left = tiles.x(t) + (PatchTiles::kWidth - canvas.width_of(p.tokens[t])) / 2;
    canvas.write(left, tiles.y(t) + tiles.tile_height + 12, p.tokens[t], false);
  }
  return canvas.png();
}

}  // namespace attune
