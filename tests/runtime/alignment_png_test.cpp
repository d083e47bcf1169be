// What is on the picture, read back by Cairo.
#include <cairo/cairo.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "graph/error.h"
#include "runtime/picture/alignment.h"

namespace attune {
namespace {

class Image {
 public:
  explicit Image(const std::string& png) : rest_(png) {
    const auto read = [](void* self, unsigned char* to, unsigned length) {
      auto& rest = static_cast<Image*>(self)->rest_;
      if (rest.size() < length) return CAIRO_STATUS_READ_ERROR;
      std::memcpy(to, rest.data(), length);
      rest.erase(0, length);
      return CAIRO_STATUS_SUCCESS;
    };
    surface_.reset(cairo_image_surface_create_from_png_stream(read, this));
    EXPECT_EQ(cairo_surface_status(surface_.get()), CAIRO_STATUS_SUCCESS);
  }
  int width() const { return cairo_image_surface_get_width(surface_.get()); }
  int height() const { return cairo_image_surface_get_height(surface_.get()); }
  uint32_t pixel(int x, int y) const {
    uint32_t value;
    std::memcpy(
        &value,
        cairo_image_surface_get_data(surface_.get()) + y * cairo_image_surface_get_stride(surface_.get()) + x * 4, 4);
    return value & 0xffffff;
  }
  // Dark grey pixels of text in [x0, x1) × [y0, y1).
  int ink(int x0, int y0, int x1, int y1) const {
    int count = 0;
    for (int y = y0; y < y1; ++y)
      for (int x = x0; x < x1; ++x) count += (pixel(x, y) & 0xff) < 110 ? 1 : 0;
    return count;
  }

 private:
  struct Free {
    void operator()(cairo_surface_t* p) const { cairo_surface_destroy(p); }
  };
  std::string rest_;
  std::unique_ptr<cairo_surface_t, Free> surface_;
};

AlignmentPicture picture(std::vector<std::string> rows, std::vector<std::string> columns) {
  AlignmentPicture p{"", std::move(rows), std::move(columns), {{"mean", {}}}};
  p.heads[0].weights.assign(p.rows.size() * p.columns.size(), 0.0F);
  return p;
}

constexpr int kCell = 22, kMargin = 16;

TEST(AlignmentPng, ShadesTheCellsAndWritesTheTokens) {
  AlignmentPicture p = picture({"the", "black", "cat"}, {"le", "chat", "noir"});
  p.heads[0].weights = {1, 0, 0, 0, 0, 0.5F, 0, 1, 0};
  const Image image(alignment_png(p, 0));
  const int right = image.width() - kMargin, bottom = image.height() - kMargin;
  const auto cell = [&](int row, int column) {
    return image.pixel(right - (3 - column) * kCell + kCell / 2, bottom - (3 - row) * kCell + kCell / 2);
  };
  EXPECT_EQ(cell(0, 0), 0x08306bU);
  EXPECT_EQ(cell(2, 1), 0x08306bU);
  EXPECT_EQ(cell(0, 1), 0xffffffU);
  EXPECT_NEAR(cell(1, 2) & 0xff, (255 + 0x6b) / 2, 1);
  const int left = right - 3 * kCell - 2, top = bottom - 3 * kCell - 2;
  // Each row's label, and of each column the label above it; "black" has more ink than "the".
  const auto row_ink = [&](int r) { return image.ink(0, bottom - (3 - r) * kCell, left, bottom - (2 - r) * kCell); };
  for (int r = 0; r < 3; ++r) EXPECT_GT(row_ink(r), 20) << r;
  EXPECT_GT(row_ink(1), row_ink(0));
  for (int c = 0; c < 3; ++c)
    EXPECT_GT(image.ink(right - (3 - c) * kCell, kMargin + 20, right - (2 - c) * kCell, top), 12) << c;
}

TEST(AlignmentPng, LabelsHaveRoom) {
  const Image narrow(alignment_png(picture({"a"}, {"b"}), 0));
  const Image wide(alignment_png(picture({"Donaudampfschifffahrtsgesellschaft"}, {"b"}), 0));
  EXPECT_GT(wide.width(), narrow.width() + 150);
  EXPECT_EQ(wide.ink(0, 40, 10, wide.height()), 0) << "cut off at the left";
}

TEST(AlignmentPng, ManyTokensShrinkAndLabelsThin) {
  const Image image(alignment_png(picture({"a"}, std::vector<std::string>(3000, "b")), 0));
  EXPECT_LT(image.width(), 32767);
  EXPECT_GE(image.width(), 3000);
}

TEST(AlignmentPng, BrokenCharactersAndNoPositions) {
  EXPECT_GT(Image(alignment_png(picture({"\xe6\x97"}, {"\xff"}), 0)).width(), kCell);
  EXPECT_GT(Image(alignment_png(picture({"a"}, {}), 0)).height(), kCell);
  AlignmentPicture p = picture({"a"}, {"b"});
  p.heads[0].weights.clear();
  EXPECT_THROW(alignment_png(p, 0), Error);
}

}  // namespace
}  // namespace attune
