// Unicode text, by ICU.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace attune::unicode {

enum class Form { kNfc, kNfd, kNfkc, kNfkd };

// All take and give UTF-8; bytes that aren't UTF-8 become U+FFFD.
std::string normalize(std::string_view text, Form form);
// Each character by itself (no final sigma), without a locale.
std::string lower(std::string_view text);
// Code points, and back.
std::u32string decode(std::string_view text);
std::string encode(std::u32string_view text);
bool is_valid(std::string_view text);  // whether it is UTF-8
std::string encode(char32_t c);
// Grapheme clusters.
std::vector<std::string_view> graphemes(std::string_view text);

bool is_whitespace(char32_t c);       // White_Space
bool is_other(char32_t c);            // Cc, Cf, Co
bool is_word(char32_t c);             // what \w of Unicode's regular expressions (UTS 18) takes
bool is_nonspacing_mark(char32_t c);  // Mn
bool is_mark(char32_t c);             // M*
bool is_punctuation(char32_t c);      // P*
bool is_numeric(char32_t c);          // Nd, Nl, No
// Columns in a terminal: 2 for what East Asian Width (UAX 11) calls wide or full, 0 for marks and for characters of
// format, else 1.
size_t columns(char32_t c);
bool is_cjk_ideograph(char32_t c);  // the blocks that BERT separates

}  // namespace attune::unicode
