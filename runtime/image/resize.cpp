#include "runtime/image/resize.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>

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

// The input elements that an output element is made of, with weights whose sum is 1.
template <class Real>
struct Taps {
  size_t begin = 0;
  std::vector<Real> weights;
};

// For `to` elements from the first `extent` of `count` elements; the last of them may count in part.
template <class Real>
std::vector<Taps<Real>> taps_of(int64_t count, Real extent, int64_t to, ResizeFilter filter) {
  constexpr Real kHalf = 0.5;
  const Real scale = extent / static_cast<Real>(to), stretch = std::max(scale, Real{1});
  const Real support = static_cast<Real>(support_of(filter)) * stretch;
  std::vector<Taps<Real>> out;
  for (int64_t i = 0; i < to; ++i) {
    const Real centre = (static_cast<Real>(i) + kHalf) * scale;
    const auto begin = std::max<int64_t>(static_cast<int64_t>(centre - support + kHalf), 0);
    const auto end = std::min<int64_t>(static_cast<int64_t>(centre + support + kHalf), count);
    Taps<Real> taps{static_cast<size_t>(begin), {}};
    Real sum = 0;
    for (int64_t x = begin; x < end; ++x) {
      const Real distance = (static_cast<Real>(x) - centre + kHalf) * (1 / stretch);
      taps.weights.push_back(static_cast<Real>(weight(filter, static_cast<double>(distance))));
      sum += taps.weights.back();
    }
    if (sum != 0)
      for (Real& w : taps.weights) w /= sum;
    out.push_back(std::move(taps));
  }
  return out;
}

template <class Real>
std::vector<Taps<Real>> taps_of(int64_t count, int64_t to, ResizeFilter filter) {
  return taps_of<Real>(count, static_cast<Real>(count), to, filter);
}

// Pillow's arithmetic: weights in units of 2^-kFractionBits.
struct PixelArithmetic {
  using Value = uint8_t;
  using Real = double;
  using Weight = int32_t;
  static Weight weight_of(double w) {
    const double scaled = w * (1 << kFractionBits);
    return static_cast<int32_t>(scaled + (scaled < 0 ? -0.5 : 0.5));
  }
  static Value sum(std::span<const Weight> weights, const Value* from, size_t stride) {
    int32_t sum = 1 << (kFractionBits - 1);
    for (size_t i = 0; i < weights.size(); ++i) sum += weights[i] * from[i * stride];
    return static_cast<uint8_t>(std::clamp(sum >> kFractionBits, 0, 255));
  }
};

// PyTorch's: in single precision, places and weights too.
struct FloatArithmetic {
  using Value = float;
  using Real = float;
  using Weight = float;
  static Weight weight_of(float w) { return w; }
  static Value sum(std::span<const Weight> weights, const Value* from, size_t stride) {
    float sum = 0;
    for (size_t i = 0; i < weights.size(); ++i) sum += weights[i] * from[i * stride];
    return sum;
  }
};

// Elements along an axis are replaced by weighted sums: `values` are rows x count x inner.
template <class Arithmetic>
std::vector<typename Arithmetic::Value> weighted_sums(const std::vector<typename Arithmetic::Value>& values,
                                                      const std::vector<Taps<typename Arithmetic::Real>>& taps,
                                                      size_t count, size_t inner) {
  using Weights = std::vector<typename Arithmetic::Weight>;
  std::vector<Weights> weights(taps.size());
  for (size_t i = 0; i < taps.size(); ++i)
    for (const auto w : taps[i].weights) weights[i].push_back(Arithmetic::weight_of(w));
  const size_t rows = values.size() / (count * inner);
  std::vector<typename Arithmetic::Value> out;
  out.reserve(rows * taps.size() * inner);
  for (size_t r = 0; r < rows; ++r)
    for (size_t i = 0; i < taps.size(); ++i)
      for (size_t k = 0; k < inner; ++k)
        out.push_back(Arithmetic::sum(weights[i], values.data() + (r * count + taps[i].begin) * inner + k, inner));
  return out;
}

Image resize_rows(const Image& image, const std::vector<Taps<double>>& taps) {
  return {static_cast<int64_t>(taps.size()), image.height,
          weighted_sums<PixelArithmetic>(image.pixels, taps, static_cast<size_t>(image.width), 3)};
}

Image resize_columns(const Image& image, const std::vector<Taps<double>>& taps) {
  return {image.width, static_cast<int64_t>(taps.size()),
          weighted_sums<PixelArithmetic>(image.pixels, taps, static_cast<size_t>(image.height),
                                         static_cast<size_t>(image.width) * 3)};
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

// Means of blocks of pixels; those at the right and lower edges may be smaller.
Image reduce(const Image& image, int64_t x_factor, int64_t y_factor) {
  constexpr int kBits = 24;
  Image out{(image.width + x_factor - 1) / x_factor, (image.height + y_factor - 1) / y_factor, {}};
  out.pixels.reserve(static_cast<size_t>(out.width * out.height) * 3);
  for (int64_t top = 0; top < image.height; top += y_factor)
    for (int64_t left = 0; left < image.width; left += x_factor) {
      const int64_t bottom = std::min(top + y_factor, image.height), right = std::min(left + x_factor, image.width);
      const auto size = static_cast<uint64_t>((bottom - top) * (right - left));
      for (int64_t c = 0; c < 3; ++c) {
        uint64_t sum = size / 2;
        for (int64_t y = top; y < bottom; ++y)
          for (int64_t x = left; x < right; ++x)
            sum += image.pixels[static_cast<size_t>((y * image.width + x) * 3 + c)];
        out.pixels.push_back(static_cast<uint8_t>((sum * ((uint64_t{1} << kBits) / size)) >> kBits));
      }
    }
  return out;
}

}  // namespace

Image resize(const Image& image, int64_t width, int64_t height, ResizeFilter filter) {
  if (width == image.width && height == image.height) return image;
  if (filter == ResizeFilter::kNearest) return nearest(image, width, height);
  if (width == image.width) return resize_columns(image, taps_of<double>(image.height, height, filter));
  const Image rows = resize_rows(image, taps_of<double>(image.width, width, filter));
  return height == rows.height ? rows : resize_columns(rows, taps_of<double>(image.height, height, filter));
}

Image resize_in_two_steps(const Image& image, int64_t width, int64_t height, ResizeFilter filter, double reducing_gap) {
  const auto factor = [&](int64_t from, int64_t to) {
    return std::max<int64_t>(1,
                             static_cast<int64_t>(static_cast<double>(from) / static_cast<double>(to) / reducing_gap));
  };
  const int64_t x_factor = factor(image.width, width), y_factor = factor(image.height, height);
  if (filter == ResizeFilter::kNearest || (x_factor == 1 && y_factor == 1)) return resize(image, width, height, filter);
  const Image reduced = reduce(image, x_factor, y_factor);
  const double x_extent = static_cast<double>(image.width) / static_cast<double>(x_factor);
  const double y_extent = static_cast<double>(image.height) / static_cast<double>(y_factor);
  return resize_columns(resize_rows(reduced, taps_of<double>(reduced.width, x_extent, width, filter)),
                        taps_of<double>(reduced.height, y_extent, height, filter));
}

FloatImage resize_bilinear(const FloatImage& image, int64_t width, int64_t height) {
  const auto along_rows = taps_of<float>(image.width, width, ResizeFilter::kBilinear);
  const auto along_columns = taps_of<float>(image.height, height, ResizeFilter::kBilinear);
  const auto rows = weighted_sums<FloatArithmetic>(image.values, along_rows, static_cast<size_t>(image.width), 3);
  return {width, height,
          weighted_sums<FloatArithmetic>(rows, along_columns, static_cast<size_t>(image.height),
                                         static_cast<size_t>(width) * 3)};
}

}  // namespace attune
