#include "runtime/text/charsmap.h"

#include <array>
#include <cstring>

#include "graph/error.h"
#include "runtime/text/unicode.h"

namespace attune {
namespace {

[[noreturn]] void invalid() { throw Error(Error::Kind::kInvalidModel, "precompiled_charsmap is corrupt"); }

std::string decode_base64(std::string_view text) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '=') break;
    const size_t value = kAlphabet.find(c);
    if (value == std::string_view::npos) invalid();
    bits = (bits << 6) | static_cast<uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out += static_cast<char>((bits >> count) & 0xff);
    }
  }
  return out;
}

// Fields of a Darts-clone unit.
bool has_leaf(uint32_t unit) { return ((unit >> 8) & 1) == 1; }
uint32_t leaf_value(uint32_t unit) { return unit & 0x7fffffffU; }
uint32_t label(uint32_t unit) { return unit & (0x80000000U | 0xffU); }
uint32_t offset(uint32_t unit) { return (unit >> 10) << ((unit & (1U << 9)) >> 6); }

}  // namespace

CharsMap::CharsMap(std::string_view base64) {
  const std::string blob = decode_base64(base64);
  uint32_t size = 0;
  if (blob.size() < sizeof(size)) invalid();
  std::memcpy(&size, blob.data(), sizeof(size));
  if (size % 4 != 0 || size > blob.size() - sizeof(size)) invalid();
  trie_.resize(size / 4);
  std::memcpy(trie_.data(), blob.data() + sizeof(size), size);
  replacements_ = blob.substr(sizeof(size) + size);
}

std::optional<std::string_view> CharsMap::find(std::string_view chunk) const {
  if (trie_.empty()) return std::nullopt;
  uint32_t node = offset(trie_[0]);
  for (const char c : chunk) {
    const auto byte = static_cast<uint32_t>(static_cast<unsigned char>(c));
    if (byte == 0) return std::nullopt;
    node ^= byte;
    if (node >= trie_.size() || label(trie_[node]) != byte) return std::nullopt;
    const uint32_t unit = trie_[node];
    node ^= offset(unit);
    if (!has_leaf(unit)) continue;
    if (node >= trie_.size()) invalid();
    const uint32_t at = leaf_value(trie_[node]);
    if (at >= replacements_.size()) invalid();
    return std::string_view(replacements_.c_str() + at);  // the shortest match, as the reference takes it
  }
  return std::nullopt;
}

std::string CharsMap::normalize(std::string_view text) const {
  const std::string valid = unicode::encode(unicode::decode(text));
  std::string out;
  for (const std::string_view grapheme : unicode::graphemes(valid)) {
    if (grapheme.size() < 6) {
      if (const auto with = find(grapheme)) {
        out += *with;
        continue;
      }
    }
    for (const char32_t c : unicode::decode(grapheme)) {
      const std::string character = unicode::encode(c);
      const auto with = find(character);
      out += with ? *with : std::string_view(character);
    }
  }
  return out;
}

}  // namespace attune
