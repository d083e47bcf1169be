#include "runtime/picture/patches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "graph/error.h"
#include "tests/support/temporary_folder.h"

namespace attune {
namespace {

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

TEST(Patches, FilesByExtension) {
  const test::TemporaryFolder folder;
  for (const char* name : {"a.svg", "a.html", "a.json"}) {
    write_patches(picture(), (folder / name).string());
    EXPECT_FALSE(test::read_file(folder / name).empty());
  }
  EXPECT_THROW(write_patches(picture(), (folder / "a.gif").string()), Error);
  EXPECT_EQ(folder.entries(), 3U);
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
