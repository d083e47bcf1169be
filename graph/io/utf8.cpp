#include "graph/io/utf8.h"

namespace attune {

void append_utf8(std::string& out, char32_t c) {
  const auto byte = [&](char32_t bits) { out.push_back(static_cast<char>(bits)); };
  if (c < 0x80) {
    byte(c);
  } else if (c < 0x800) {
    byte(0xc0 | (c >> 6));
    byte(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    byte(0xe0 | (c >> 12));
    byte(0x80 | ((c >> 6) & 0x3f));
    byte(0x80 | (c & 0x3f));
  } else {
    byte(0xf0 | (c >> 18));
    byte(0x80 | ((c >> 12) & 0x3f));
    byte(0x80 | ((c >> 6) & 0x3f));
    byte(0x80 | (c & 0x3f));
  }
}

std::optional<std::u32string> from_utf8(std::string_view text) {
  constexpr char32_t kSmallest[] = {0, 0x80, 0x800, 0x10000};
  std::u32string out;
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i++]);
    const size_t more = lead < 0x80 ? 0 : lead >= 0xf0 && lead < 0xf8 ? 3 : lead >= 0xe0 ? 2 : 1;
    if ((lead >= 0x80 && lead < 0xc0) || lead >= 0xf8 || more > text.size() - i) return std::nullopt;
    char32_t c = more == 0 ? lead : lead & (0x3fu >> more);
    for (size_t k = 0; k < more; ++k) {
      const auto next = static_cast<unsigned char>(text[i++]);
      if ((next & 0xc0u) != 0x80u) return std::nullopt;
      c = (c << 6) | (next & 0x3fu);
    }
    if (c < kSmallest[more] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return std::nullopt;
    out.push_back(c);
  }
  return out;
}

}  // namespace attune
