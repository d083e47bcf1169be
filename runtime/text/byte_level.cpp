#include "runtime/text/byte_level.h"

#include <array>
#include <unordered_map>

#include "runtime/text/unicode.h"

namespace attune {
namespace {

// Printable bytes stand for themselves; the others take U+0100, U+0101, ... in order.
const std::array<char32_t, 256>& alphabet() {
  static const auto table = [] {
    std::array<char32_t, 256> t{};
    char32_t next = 256;
    for (char32_t b = 0; b < 256; ++b) {
      const bool printable = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || (b >= 0xae && b <= 0xff);
      t[b] = printable ? b : next++;
    }
    return t;
  }();
  return table;
}

}  // namespace

std::string bytes_to_alphabet(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += unicode::encode(alphabet()[static_cast<unsigned char>(c)]);
  return out;
}

std::optional<std::string> alphabet_to_bytes(std::string_view text) {
  static const auto inverse = [] {
    std::unordered_map<char32_t, char> m;
    for (size_t b = 0; b < 256; ++b) m[alphabet()[b]] = static_cast<char>(b);
    return m;
  }();
  std::string out;
  for (const char32_t c : unicode::decode(text)) {
    const auto it = inverse.find(c);
    if (it == inverse.end()) return std::nullopt;
    out += it->second;
  }
  return out;
}

}  // namespace attune
