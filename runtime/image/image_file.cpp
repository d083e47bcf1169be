#include "runtime/image/image_file.h"

#include <fmt/format.h>
#include <png.h>
#include <turbojpeg.h>

#include <csetjmp>
#include <cstring>
#include <memory>
#include <span>
#include <string>

#include "graph/error.h"
#include "runtime/folder.h"

namespace attune {
namespace {

using Bytes = std::span<const uint8_t>;

// Beyond it a small file could ask for all memory.
constexpr int64_t kMostPixels = int64_t{1} << 27;

[[noreturn]] void invalid(std::string message) { throw Error(Error::Kind::kInvalidArgument, std::move(message)); }

void check_size(int64_t width, int64_t height) {
  if (width < 1 || height < 1 || width > kMostPixels / height)
    invalid(fmt::format("a picture of {} x {} pixels: at most {} are read", width, height, kMostPixels));
}

// libpng leaves a failed call by longjmp: what must be destroyed lives outside of the function that calls it.
struct PngReader {
  explicit PngReader(Bytes bytes) : rest(bytes) {}
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }

  png_structp png = nullptr;
  png_infop info = nullptr;
  std::span<const uint8_t> rest;
  std::string message = "not a PNG";
};

void png_failed(png_structp png, png_const_charp message) {
  static_cast<PngReader*>(png_get_error_ptr(png))->message = message;
  png_longjmp(png, 1);
}
void png_warned(png_structp, png_const_charp) {}

void png_give(png_structp png, png_bytep to, size_t size) {
  auto& reader = *static_cast<PngReader*>(png_get_io_ptr(png));
  if (size > reader.rest.size()) png_error(png, "the file is cut off");
  std::memcpy(to, reader.rest.data(), size);
  reader.rest = reader.rest.subspan(size);
}

bool read_png_header(PngReader& r) {
  r.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &r, png_failed, png_warned);
  if (!r.png) return false;
  if (setjmp(png_jmpbuf(r.png))) return false;
  r.info = png_create_info_struct(r.png);
  if (!r.info) return false;
  png_set_read_fn(r.png, &r, png_give);
  png_read_info(r.png, r.info);
  png_set_expand(r.png);  // palettes, fewer than 8 bits
  png_set_strip_16(r.png);
  png_set_gray_to_rgb(r.png);
  png_set_strip_alpha(r.png);
  png_set_interlace_handling(r.png);
  png_read_update_info(r.png, r.info);
  return true;
}

bool read_png_rows(PngReader& r, png_bytepp rows) {
  if (setjmp(png_jmpbuf(r.png))) return false;
  png_read_image(r.png, rows);
  return true;
}

Image read_png(Bytes bytes) {
  PngReader reader(bytes);
  if (!read_png_header(reader)) invalid(reader.message);
  Image image{png_get_image_width(reader.png, reader.info), png_get_image_height(reader.png, reader.info), {}};
  check_size(image.width, image.height);
  const auto row = static_cast<size_t>(image.width) * 3;
  if (png_get_rowbytes(reader.png, reader.info) != row) invalid("unexpected size of rows");
  image.pixels.resize(row * static_cast<size_t>(image.height));
  std::vector<png_bytep> rows;
  for (size_t y = 0; y < static_cast<size_t>(image.height); ++y) rows.push_back(image.pixels.data() + y * row);
  if (!read_png_rows(reader, rows.data())) invalid(reader.message);
  return image;
}

struct DestroyJpeg {
  void operator()(void* handle) const { tjDestroy(handle); }
};

Image read_jpeg(Bytes bytes) {
  const std::unique_ptr<void, DestroyJpeg> jpeg(tjInitDecompress());
  if (!jpeg) throw Error(Error::Kind::kInternal, tjGetErrorStr2(nullptr));
  int width = 0, height = 0, subsampling = 0, colours = 0;
  const auto size = static_cast<unsigned long>(bytes.size());  // NOLINT(google-runtime-int): the library's type
  if (tjDecompressHeader3(jpeg.get(), bytes.data(), size, &width, &height, &subsampling, &colours) != 0)
    invalid(tjGetErrorStr2(jpeg.get()));
  check_size(width, height);
  if (colours == TJCS_CMYK || colours == TJCS_YCCK)
    throw Error(Error::Kind::kUnsupported, "a JPEG of printing colours (CMYK)");
  Image image{width, height, {}};
  image.pixels.resize(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
  if (tjDecompress2(jpeg.get(), bytes.data(), size, image.pixels.data(), width, 0, height, TJPF_RGB,
                    TJFLAG_ACCURATEDCT) != 0)
    invalid(tjGetErrorStr2(jpeg.get()));
  return image;
}

}  // namespace

Image decode_image(std::string_view bytes) {
  const Bytes data(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  if (bytes.starts_with("\x89PNG\r\n\x1a\n")) return read_png(data);
  if (bytes.starts_with("\xff\xd8\xff")) return read_jpeg(data);
  throw Error(Error::Kind::kUnsupported, "neither PNG nor JPEG");
}

Image read_image(const std::filesystem::path& file) {
  const auto bytes = read_bytes(file);
  if (!bytes) throw Error(Error::Kind::kIo, fmt::format("{}: can't be opened", file.string()));
  return within([&] { return file.string(); }, [&] { return decode_image(*bytes); });
}

}  // namespace attune
