#include "runtime/picture/patches.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "graph/error.h"
#include "graph/io/output_file.h"
#include "runtime/picture/xml.h"

namespace attune {
namespace {

constexpr int kTileWidth = 200, kLabel = 22, kGap = 12, kTilesInARow = 5;  // pixels
constexpr size_t kHeader = 36;

void check(const PatchPicture& p) {
  if (p.width < 1 || p.height < 1 || p.grid_columns * p.grid_rows == 0 ||
      p.weights.size() != p.tokens.size() * p.grid_columns * p.grid_rows)
    throw Error(Error::Kind::kInvalidArgument,
                fmt::format("{} weights for {} tokens and {} x {} patches", p.weights.size(), p.tokens.size(),
                            p.grid_columns, p.grid_rows));
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t three = 0;
    for (size_t k = 0; k < 3; ++k)
      three = (three << 8) | (i + k < bytes.size() ? static_cast<uint8_t>(bytes[i + k]) : 0U);
    for (size_t k = 0; k < 4; ++k) out += i + k > bytes.size() ? '=' : kAlphabet[(three >> (18 - 6 * k)) & 63U];
  }
  return out;
}

// The patches of one token, in pixels of the picture.
std::string heat(const PatchPicture& p, size_t token) {
  const size_t count = p.grid_columns * p.grid_rows;
  const float* weights = p.weights.data() + token * count;
  const float strongest = std::max(*std::max_element(weights, weights + count), 1e-12F);
  const double w = p.covered_width / static_cast<double>(p.grid_columns);
  const double h = p.covered_height / static_cast<double>(p.grid_rows);
  std::string out;
  for (size_t i = 0; i < count; ++i)
    out += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" "
        "fill-opacity=\"{:.3f}\"><title>{:.4f}</title></rect>\n",
        p.left + static_cast<double>(i % p.grid_columns) * w, p.top + static_cast<double>(i / p.grid_columns) * h, w, h,
        std::clamp(0.75F * weights[i] / strongest, 0.0F, 1.0F), weights[i]);
  return out;
}

}  // namespace

PatchGrid patch_grid(size_t positions, int64_t width, int64_t height, int64_t patch_size) {
  if (patch_size > 0) {
    const auto columns = static_cast<size_t>(width / patch_size), rows = static_cast<size_t>(height / patch_size);
    if (columns * rows > 0 && columns * rows <= positions) return {columns, rows, positions - columns * rows};
    return {};
  }
  // One or two class tokens are usual.
  for (size_t in_front = 0; in_front < std::min<size_t>(3, positions); ++in_front) {
    const auto side = static_cast<size_t>(std::lround(std::sqrt(static_cast<double>(positions - in_front))));
    if (side * side == positions - in_front) return {side, side, in_front};
  }
  return {};
}

std::string patches_svg(const PatchPicture& p) {
  check(p);
  const auto count = static_cast<int>(p.tokens.size());
  const int columns = std::clamp(count, 1, kTilesInARow);
  const double scale = static_cast<double>(kTileWidth) / static_cast<double>(p.width);
  const int tile_height = std::max(1, static_cast<int>(std::lround(static_cast<double>(p.height) * scale)));
  const int header = static_cast<int>(kHeader), step_y = tile_height + kLabel + kGap;
  const int width = columns * (kTileWidth + kGap) + kGap,
            height = header + (count + columns - 1) / columns * step_y + kGap;
  const char* kind = p.file_bytes.starts_with("\x89PNG") ? "png" : "jpeg";
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" xmlns:xlink=\"http://www.w3.org/1999/xlink\" width=\"{0}\" "
      "height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"13\">\n<title>{2}</title>\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n<text x=\"{3}\" y=\"22\" font-weight=\"bold\">{2}</text>\n"
      "<defs><image id=\"picture\" width=\"{4}\" height=\"{5}\" preserveAspectRatio=\"none\" "
      "xlink:href=\"data:image/{6};base64,{7}\"/>\n<clipPath id=\"edges\"><rect width=\"{4}\" "
      "height=\"{5}\"/></clipPath></defs>\n",
      width, height, xml_escape(p.title), kGap, p.width, p.height, kind, base64(p.file_bytes));
  for (int t = 0; t < count; ++t) {
    const int x = kGap + t % columns * (kTileWidth + kGap), y = header + t / columns * step_y;
    out += fmt::format(
        "<g transform=\"translate({},{}) scale({:.6f})\" clip-path=\"url(#edges)\">\n<use "
        "xlink:href=\"#picture\"/>\n<g fill=\"#e6004c\">\n{}</g>\n</g>\n"
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
        x, y, scale, heat(p, static_cast<size_t>(t)), x + kTileWidth / 2, y + tile_height + 16,
        xml_escape(p.tokens[static_cast<size_t>(t)]));
  }
  return out + "</svg>\n";
}

std::string patches_json(const PatchPicture& p) {
  check(p);
  nlohmann::ordered_json j{{"title", p.title}, {"grid", {p.grid_rows, p.grid_columns}}, {"tokens", p.tokens}};
  auto& all = j["weights"] = nlohmann::ordered_json::array();
  auto at = p.weights.begin();
  for (size_t t = 0; t < p.tokens.size(); ++t) {
    auto rows = nlohmann::ordered_json::array();
    for (size_t r = 0; r < p.grid_rows; ++r, at += static_cast<std::ptrdiff_t>(p.grid_columns))
      rows.push_back(std::vector<float>(at, at + static_cast<std::ptrdiff_t>(p.grid_columns)));
    all.push_back(std::move(rows));
  }
  return j.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void write_patches(const PatchPicture& picture, const std::string& file) {
  const std::string extension = std::filesystem::path(file).extension().string();
  std::string text;
  if (extension == ".svg") {
    text = patches_svg(picture);
  } else if (extension == ".html") {
    text = fmt::format(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta "
        "charset=\"utf-8\"><title>{}</title></head>\n<body>\n{}</body></html>\n",
        xml_escape(picture.title), patches_svg(picture));
  } else if (extension == ".json") {
    text = patches_json(picture);
  } else {
    throw Error(
        Error::Kind::kInvalidArgument,
        fmt::format("{}: attention over a picture is written as .svg, .html or .json, not '{}'", file, extension));
  }
  OutputFile out(file);
  out.write(text);
  out.commit();
}

}  // namespace attune
