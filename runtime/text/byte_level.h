// GPT-2's byte alphabet: every byte as one printable character.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace attune {

// Bytes to characters of the alphabet.
std::string bytes_to_alphabet(std::string_view bytes);
// Back; nothing if a character isn't of the alphabet.
std::optional<std::string> alphabet_to_bytes(std::string_view text);

}  // namespace attune
