// SentencePiece's compiled character map: replacements of character sequences, found in a double-array trie.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attune {

class CharsMap {
 public:
  // `base64` holds: size of the trie in bytes (uint32, little-endian), the trie (Darts-clone units), and the
  // replacements, each ended by a zero byte. Throws Error(kInvalidModel).
  explicit CharsMap(std::string_view base64);
  // A grapheme of less than 6 bytes is looked up whole, else (or if that isn't found) character by character.
  std::string normalize(std::string_view text) const;

 private:
  std::optional<std::string_view> find(std::string_view chunk) const;
  std::vector<uint32_t> trie_;
  std::string replacements_;
};

}  // namespace attune
