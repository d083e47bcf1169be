#include "runtime/picture/text_width.h"

#include "runtime/text/unicode.h"

namespace attune {

size_t text_width(std::string_view text) {
  size_t width = 0;
  for (const char32_t c : unicode::decode(text)) width += unicode::columns(c);
  return width;
}

std::string pad_left(std::string_view text, size_t width) {
  const size_t w = text_width(text);
  std::string out(w < width ? width - w : 0, ' ');
  out += text;
  return out;
}

}  // namespace attune
