#include "runtime/picture/text_width.h"

#include <array>
#include <cstdint>

namespace attune {
namespace {

struct Range {
  uint32_t first, last;
};

// Unicode 15: combining marks of the common blocks, and zero-width characters.
constexpr std::array kZeroWidth = {
    Range{0x300, 0x36f}, Range{0x483, 0x489}, Range{0x591, 0x5bd},   Range{0x610, 0x61a},   Range{0x64b, 0x65f},
    Range{0x900, 0x902}, Range{0x93c, 0x93c}, Range{0x941, 0x948},   Range{0x94d, 0x94d},   Range{0xe31, 0xe31},
    Range{0xe34, 0xe3a}, Range{0xe47, 0xe4e}, Range{0x200b, 0x200f}, Range{0x20d0, 0x20f0}, Range{0xfe00, 0xfe0f}};
// Unicode 15 East Asian Width W and F.
constexpr std::array kWide = {Range{0x1100, 0x115f},   Range{0x2e80, 0x303e},  Range{0x3041, 0x33ff},
                              Range{0x3400, 0x4dbf},   Range{0x4e00, 0x9fff},  Range{0xa000, 0xa4cf},
                              Range{0xac00, 0xd7a3},   Range{0xf900, 0xfaff},  Range{0xfe30, 0xfe6f},
                              Range{0xff00, 0xff60},   Range{0xffe0, 0xffe6},  Range{0x1f300, 0x1f64f},
                              Range{0x1f900, 0x1f9ff}, Range{0x20000, 0x3fffd}};

template <class Ranges>
bool contains(const Ranges& ranges, uint32_t c) {
  for (const Range& r : ranges)
    if (c >= r.first && c <= r.last) return true;
  return false;
}

// The code point at `at`, and how many bytes it takes; 1 and U+FFFD where it isn't UTF-8.
std::pair<uint32_t, size_t> decode(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(text[i])); };
  const uint32_t first = byte(at);
  const size_t length = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 0;
  if (length == 1) return {first, 1};
  if (length == 0 || at + length > text.size()) return {0xfffd, 1};
  uint32_t c = first & (0x7fU >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return {0xfffd, 1};
    c = (c << 6) | (byte(at + i) & 0x3f);
  }
  return {c, length};
}

}  // namespace

size_t text_width(std::string_view text) {
  size_t width = 0;
  for (size_t at = 0; at < text.size();) {
    const auto [c, length] = decode(text, at);
    at += length;
    width += contains(kZeroWidth, c) ? 0 : contains(kWide, c) ? 2 : 1;
  }
  return width;
}

std::string pad_left(std::string_view text, size_t width) {
  const size_t w = text_width(text);
  std::string out(w < width ? width - w : 0, ' ');
  out += text;
  return out;
}

}  // namespace attune
