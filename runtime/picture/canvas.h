// Drawing of PNGs. Internal to pictures.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/picture/heatmap.h"

namespace attune {

// A white picture to draw on; text is of one size. Places are pixels from the upper left corner.
class Canvas {
 public:
  static constexpr int kLargest = 30000;  // pixels; Cairo's images end at 32767

  // Throws Error(kLimit) if it is too large.
  Canvas(int width, int height);
  ~Canvas();
  Canvas(Canvas&&) noexcept;
  Canvas& operator=(Canvas&&) noexcept;

  void fill(double x, double y, double width, double height, Colour c, double opacity = 1);
  int width_of(const std::string& text, bool bold = false);
  // Centred on y; with its left or, if `to_left`, its right end at x.
  void write(int x, int y, const std::string& text, bool to_left, bool bold = false);
  // Upwards, centred on x, with its beginning at y.
  void write_upwards(int x, int y, const std::string& text);
  // A picture of width x height pixels (red, green, blue, row by row). What follows until end_picture() is drawn from
  // its upper left corner and only within its edges.
  void begin_picture(int x, int y, const uint8_t* pixels, int width, int height);
  void end_picture();
  std::string png();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace attune
