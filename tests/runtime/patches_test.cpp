#include "runtime/picture/patches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "graph/error.h"
#include "runtime/image/image_file.h"
#include "runtime/image/resize.h"
#include "tests/support/temporary_folder.h"

namespace attune {
namespace {

const std::filesystem::path kPicture = std::filesystem::path(ATTUNE_SOURCE_DIR) / "tests/runtime/data/images/rgb.png";

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

PatchPicture picture() {
  PatchPicture p;
  p.title = "a <b>";
  p.file_bytes = "\x89PNG\r\n\x1a\n?";
  p.width = 40;
  p.height = 20;
  p.covered_width = 40;
  p.covered_height = 20;
  p.grid_columns = 2;
  p.grid_rows = 1;
  p.tokens = {"x", "&"};
  p.weights = {0.25F, 0.5F, 0, 1};
  return p;
}

void expect_grid(const PatchGrid& g, size_t columns, size_t rows, size_t in_front) {
  EXPECT_EQ(g.columns, columns);
  EXPECT_EQ(g.rows, rows);
  EXPECT_EQ(g.in_front, in_front);
}

TEST(Patches, GridsByTheSizeOfAPatchOrAsASquare) {
  expect_grid(patch_grid(17, 32, 32, 8), 4, 4, 1);
  expect_grid(patch_grid(10, 40, 16, 8), 5, 2, 0);
  expect_grid(patch_grid(11, 40, 20, 8), 5, 2, 1);  // what is left at the edge has no patch
  expect_grid(patch_grid(577, 384, 384, 0), 24, 24, 1);
  expect_grid(patch_grid(578, 384, 384, 0), 24, 24, 2);
  expect_grid(patch_grid(16, 100, 50, 0), 4, 4, 0);
  EXPECT_EQ(patch_grid(9, 40, 16, 8).columns, 0U);
  EXPECT_EQ(patch_grid(7, 40, 16, 0).columns, 0U);
}

TEST(Patches, ThePictureIsEmbeddedOnceAndShownForEachToken) {
  const std::string svg = patches_svg(picture());
  EXPECT_EQ(count(svg, "<use "), 2U);
  EXPECT_EQ(count(svg, "data:image/png;base64,iVBORw0KGgo/"), 1U);
  EXPECT_EQ(count(svg, "fill-opacity"), 4U);
  EXPECT_EQ(count(svg, "fill-opacity=\"0.750\""), 2U);  // the strongest of each token
  EXPECT_THAT(svg, testing::HasSubstr("a &lt;b&gt;"));
  EXPECT_THAT(svg, testing::HasSubstr(">&amp;</text>"));
  EXPECT_THAT(svg, testing::HasSubstr("x=\"20.00\" y=\"0.00\" width=\"20.00\" height=\"20.00\""));
}

TEST(Patches, AsJson) {
  const auto j = nlohmann::json::parse(patches_json(picture()));
  EXPECT_EQ(j["grid"], (nlohmann::json{1, 2}));
  EXPECT_EQ(j["weights"][1][0][1], 1.0);
}

TEST(Patches, AsPngThePatchesAreShaded) {
  PatchPicture p = picture();
  p.file_bytes = test::read_file(kPicture);
  const Image original = decode_image(p.file_bytes);
  p.width = original.width;
  p.height = original.height;
  p.covered_width = static_cast<double>(p.width);
  p.covered_height = static_cast<double>(p.height);
  const Image png = decode_image(patches_png(p));
  EXPECT_EQ(png.width, 2 * (200 + 12) + 12);
  const auto height = std::lround(200.0 * static_cast<double>(p.height) / static_cast<double>(p.width));
  EXPECT_EQ(png.height, 36 + height + 22 + 12 + 12);
  const Image plain = resize(original, 200, height, ResizeFilter::kBilinear);
  const auto expect_shade = [&](int64_t tile, int64_t x, int64_t y, double opacity) {
    const std::array<double, 3> red{0xe6, 0, 0x4c};
    for (size_t c = 0; c < 3; ++c) {
      const double below = plain.pixels[static_cast<size_t>((y * 200 + x) * 3) + c];
      const auto shown = png.pixels[static_cast<size_t>(((36 + y) * png.width + 12 + tile * 212 + x) * 3) + c];
      EXPECT_NEAR(shown, below + opacity * (red.at(c) - below), 1.5) << tile << ' ' << x << ' ' << y;
    }
  };
  for (const int64_t y : {int64_t{3}, static_cast<int64_t>(height) - 4}) {
    expect_shade(0, 20, y, 0.375);
    expect_shade(0, 180, y, 0.75);
    expect_shade(1, 20, y, 0);
    expect_shade(1, 180, y, 0.75);
  }
}

TEST(Patches, AsPngOnlyThePictureIsShaded) {
  PatchPicture p = picture();
  p.file_bytes = test::read_file(kPicture);
  p.left = p.top = -100;
  p.covered_width = p.covered_height = 300;
  const Image png = decode_image(patches_png(p));
  for (const auto& [x, y] : {std::pair<int64_t, int64_t>{5, 60}, {218, 60}, {100, 30}})
    for (size_t c = 0; c < 3; ++c) EXPECT_EQ(png.pixels[static_cast<size_t>((y * png.width + x) * 3) + c], 255);
}

TEST(Patches, FilesByExtension) {
  const test::TemporaryFolder folder;
  PatchPicture p = picture();
  p.file_bytes = test::read_file(kPicture);
  for (const char* name : {"a.svg", "a.html", "a.json", "a.png"}) {
    write_patches(p, (folder / name).string());
    EXPECT_FALSE(test::read_file(folder / name).empty());
  }
  EXPECT_THROW(patches_png(picture()), Error) << "not a picture";
  EXPECT_THROW(write_patches(picture(), (folder / "a.gif").string()), Error);
  EXPECT_EQ(folder.entries(), 4U);
}

TEST(Patches, SizesMustAgree) {
  PatchPicture p = picture();
  p.weights.pop_back();
  EXPECT_THROW(patches_svg(p), Error);
  p = picture();
  p.grid_rows = 0;
  EXPECT_THROW(patches_json(p), Error);
}

}  // namespace
}  // namespace attune
