// Pictures from files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

namespace attune {

// Red, green and blue of each pixel, row by row.
struct Image {
  int64_t width = 0, height = 0;
  std::vector<uint8_t> pixels;
};

// Reads PNG and JPEG, whatever the file is called, as Pillow's convert("RGB") gives them: transparency is dropped, grey
// becomes three equal channels, of 16 bits the upper 8 are taken; gamma and orientation marks are ignored. Throws
// Error(kIo) where the file can't be read, Error(kInvalidArgument) where it is damaged or too large,
// Error(kUnsupported) for other formats.
Image read_image(const std::filesystem::path& file);
// The same from the bytes of a file.
Image decode_image(std::string_view bytes);

}  // namespace attune
