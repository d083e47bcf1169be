// Attention over the patches of a picture, drawn on it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace attune {

struct PatchPicture {
  std::string title;
  std::string file_bytes;         // of the picture: PNG or JPEG
  int64_t width = 0, height = 0;  // pixels
  // What the grid of patches covers, in pixels of the picture; may reach beyond its edges.
  double left = 0, top = 0, covered_width = 0, covered_height = 0;
  size_t grid_columns = 0, grid_rows = 0;
  std::vector<std::string> tokens;  // of the output
  std::vector<float> weights;       // tokens x grid rows x grid columns
};

// How many patches lie side by side and upon each other, if an encoder gives `positions` for a picture of width x
// height: by the patches' size, or, if that is 0, as a square. Positions in front of the patches (class tokens) are
// what is left. Gives 0 columns where it doesn't come out.
struct PatchGrid {
  size_t columns = 0, rows = 0, in_front = 0;
};
PatchGrid patch_grid(size_t positions, int64_t width, int64_t height, int64_t patch_size);

// The picture once for each token, what it attended to in colour (relative to its strongest patch), as a stand-alone
// SVG 1.1 document. All throw Error(kInvalidArgument) where sizes don't agree.
std::string patches_svg(const PatchPicture& picture);
// The same as a PNG. Throws as decode_image() too.
std::string patches_png(const PatchPicture& picture);
// {"title", "grid": [rows, columns], "tokens", "weights": [[[...]]]}
std::string patches_json(const PatchPicture& picture);

// Writes the form that the file's extension names: .svg, .png, .html or .json (to a temporary name, then renamed).
// Throws Error(kInvalidArgument) for another extension, Error(kIo).
void write_patches(const PatchPicture& picture, const std::string& file);

}  // namespace attune
