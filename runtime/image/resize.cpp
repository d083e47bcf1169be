#include "runtime/image/resize.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace attune {
namespace {

constexpr int kFractionBits = 22;  // of weights: 32 bits less 8 of a pixel, a sign and one to spare

double sinc(double x) { return x == 0 ? 1 : std::sin(std::numbers::pi * x) / (std::numbers::pi * x); }

double support_of(ResizeFilter filter) {
  switch (filter) {
    case ResizeFilter::kBox:
      return 0.5;
    case ResizeFilter::kBicubic:
      return 2;
    case ResizeFilter::kLanczos:
      return 3;
    default:
      return 1;
  }
}

double weight(ResizeFilter filter, double x) {
  const double distance = std::abs(x);
  switch (filter) {
    case ResizeFilter::kBox:
      return x > -0.5 && x <= 0.5 ? 1 : 0;
    case ResizeFilter::kHamming:
      return distance >= 1 ? 0 : sinc(distance) * (0.54 + 0.46 * std::cos(std::numbers::pi * distance));
    case ResizeFilter::kBicubic: {  // Keys, a = -0.5
      constexpr double a = -0.5;
      if (distance < 1) return ((a + 2) * distance - (a + 3)) * distance * distance + 1;
      if (distance < 2) return (((distance - 5) * distance + 8) * distance - 4) * a;
      return 0;
    }
    case ResizeFilter::kLanczos:
      return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0;
    default:
      return std::max(0.0, 1 - distance);
  }
}

// The input elements that an output element is made of.
struct Taps {
  size_t begin = 0;
  std::vector<int32_t> weights;  // in units of 2^-kFractionBits
};

std::vector<Taps> taps_of(int64_t from, int64_t to, ResizeFilter filter) {
  const double scale = static_cast<double>(from) / static_cast<double>(to), stretch = std::max(scale, 1.0);
  const double support = support_of(filter) * stretch;
  std::vector<Taps> out;
  for (int64_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const auto begin = std::max<int64_t>(static_cast<int64_t>(centre - support + 0.5), 0);
    const auto end = std::min<int64_t>(static_cast<int64_t>(centre + support + 0.5), from);
    std::vector<double> weights;
    double sum = 0;
    for (int64_t x = begin; x < end; ++x) {
      weights.push_back(weight(filter, (static_cast<double>(x) - centre + 0.5) * (1 / stretch)));
      sum += weights.back();
    }
    Taps taps{static_cast<size_t>(begin), {}};
    for (const double w : weights) {
      const double scaled = (sum != 0 ? w / sum : w) * (1 << kFractionBits);
      taps.weights.push_back(static_cast<int32_t>(scaled + (scaled < 0 ? -0.5 : 0.5)));
    }
    out.push_back(std::move(taps));
  }
  return out;
}

// Output element `taps` of elements `stride` apart.
uint8_t apply(const Taps& taps, const uint8_t* from, size_t stride) {
  int32_t sum = 1 << (kFractionBits - 1);
  from += taps.begin * stride;
  for (const int32_t w : taps.weights) {
    sum += w * *from;
    from += stride;
  }
  return static_cast<uint8_t>(std::clamp(sum >> kFractionBits, 0, 255));
}

Image resize_rows(const Image& image, int64_t width, ResizeFilter filter) {
  const auto taps = taps_of(image.width, width, filter);
  Image out{width, image.height, {}};
  out.pixels.reserve(static_cast<size_t>(width * image.height) * 3);
  for (size_t y = 0; y < static_cast<size_t>(image.height); ++y)
    for (const Taps& t : taps)
      for (size_t c = 0; c < 3; ++c)
        out.pixels.push_back(apply(t, image.pixels.data() + y * static_cast<size_t>(image.width) * 3 + c, 3));
  return out;
}

Image resize_columns(const Image& image, int64_t height, ResizeFilter filter) {
  const auto row = static_cast<size_t>(image.width) * 3;
  Image out{image.width, height, {}};
  out.pixels.reserve(row * static_cast<size_t>(height));
  for (const Taps& t : taps_of(image.height, height, filter))
    for (size_t x = 0; x < row; ++x) out.pixels.push_back(apply(t, image.pixels.data() + x, row));
  return out;
}

Image nearest(const Image& image, int64_t width, int64_t height) {
  const auto place = [](int64_t i, int64_t from, int64_t to) {
    const double at = (static_cast<double>(i) + 0.5) * static_cast<double>(from) / static_cast<double>(to);
    return static_cast<size_t>(std::min(static_cast<int64_t>(at), from - 1));
  };
  Image out{width, height, {}};
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x) {
      const size_t at =
          place(y, image.height, height) * static_cast<size_t>(image.width) + place(x, image.width, width);
      out.pixels.insert(out.pixels.end(), image.pixels.begin() + static_cast<std::ptrdiff_t>(at * 3),
                        image.pixels.begin() + static_cast<std::ptrdiff_t>(at * 3 + 3));
    }
  return out;
}

}  // namespace

Image resize(const Image& image, int64_t width, int64_t height, ResizeFilter filter) {
  if (width == image.width && height == image.height) return image;
  if (filter == ResizeFilter::kNearest) return nearest(image, width, height);
  if (width == image.width) return resize_columns(image, height, filter);
  const Image rows = resize_rows(image, width, filter);
  return height == rows.height ? rows : resize_columns(rows, height, filter);
}

}  // namespace attune
