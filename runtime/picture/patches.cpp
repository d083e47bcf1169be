#include "runtime/picture/patches.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "graph/error.h"
#include "graph/io/output_file.h"
#include "runtime/picture/patches_layout.h"
#include "runtime/picture/xml.h"

namespace attune {
namespace {

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

std::string heat(const PatchPicture& p, size_t token) {
  std::string out;
  for (const ShadedPatch& s : shaded_patches(p, token))
    out += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" "
        "fill-opacity=\"{:.3f}\"><title>{:.4f}</title></rect>\n",
        s.x, s.y, s.width, s.height, s.opacity, s.weight);
  return out;
}

}  // namespace

void check(const PatchPicture& p) {
  if (p.width < 1 || p.height < 1 || p.grid_columns * p.grid_rows == 0 ||
      p.weights.size() != p.tokens.size() * p.grid_columns * p.grid_rows)
    throw Error(Error::Kind::kInvalidArgument,
                fmt::format("{} weights for {} tokens and {} x {} patches", p.weights.size(), p.tokens.size(),
                            p.grid_columns, p.grid_rows));
}

PatchTiles::PatchTiles(const PatchPicture& p)
    : scale(static_cast<double>(kWidth) / static_cast<double>(p.width)),
      tile_height(std::max(1, static_cast<int>(std::lround(static_cast<double>(p.height) * scale)))) {
  const auto count = static_cast<int>(p.tokens.size());
  width = std::clamp(count, 1, kInARow) * (kWidth + kGap) + kGap;
  height = kHeader + (count + kInARow - 1) / kInARow * (tile_height + kLabel + kGap) + kGap;
}

int PatchTiles::x(size_t token) const { return kGap + static_cast<int>(token) % kInARow * (kWidth + kGap); }

int PatchTiles::y(size_t token) const {
  return kHeader + static_cast<int>(token) / kInARow * (tile_height + kLabel + kGap);
}

std::vector<ShadedPatch> shaded_patches(const PatchPicture& p, size_t token) {
  const size_t count = p.grid_columns * p.grid_rows;
  const float* weights = p.weights.data() + token * count;
  const float strongest = std::max(*std::max_element(weights, weights + count), 1e-12F);
  const double w = p.covered_width / static_cast<double>(p.grid_columns);
  const double h = p.covered_height / static_cast<double>(p.grid_rows);
  std::vector<ShadedPatch> out;
  for (size_t i = 0; i < count; ++i)
    out.push_back({p.left + static_cast<double>(i % p.grid_columns) * w,
                   p.top + static_cast<double>(i / p.grid_columns) * h, w, h,
                   std::clamp(0.75F * weights[i] / strongest, 0.0F, 1.0F), weights[i]});
  return out;
}

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
  const PatchTiles tiles(p);
  const char* kind = p.file_bytes.starts_with("\x89PNG") ? "png" : "jpeg";
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" xmlns:xlink=\"http://www.w3.org/1999/xlink\" width=\"{0}\" "
      "height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"13\">\n<title>{2}</title>\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n<text x=\"{3}\" y=\"22\" font-weight=\"bold\">{2}</text>\n"
      "<defs><image id=\"picture\" width=\"{4}\" height=\"{5}\" preserveAspectRatio=\"none\" "
      "xlink:href=\"data:image/{6};base64,{7}\"/>\n<clipPath id=\"edges\"><rect width=\"{4}\" "
      "height=\"{5}\"/></clipPath></defs>\n",
      tiles.width, tiles.height, xml_escape(p.title), PatchTiles::kGap, p.width, p.height, kind, base64(p.file_bytes));
  for (size_t t = 0; t < p.tokens.size(); ++t)
    out += fmt::format(
        "<g transform=\"translate({},{}) scale({:.6f})\" clip-path=\"url(#edges)\">\n<use "
        "xlink:href=\"#picture\"/>\n<g fill=\"#e6004c\">\n{}</g>\n</g>\n"
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
        tiles.x(t), tiles.y(t), tiles.scale, heat(p, t), tiles.x(t) + PatchTiles::kWidth / 2,
        tiles.y(t) + tiles.tile_height + 16, xml_escape(p.tokens[t]));
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
  } else if (extension == ".png") {
    text = patches_png(picture);
  } else if (extension == ".json") {
    text = patches_json(picture);
  } else {
    throw Error(Error::Kind::kInvalidArgument,
                fmt::format("{}: attention over a picture is written as .svg, .png, .html or .json, not '{}'", file,
                            extension));
  }
  write_file(file, text);
}

}  // namespace attune
