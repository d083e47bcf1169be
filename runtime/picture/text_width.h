// Columns that UTF-8 text takes in a terminal.
#pragma once

#include <string>
#include <string_view>

namespace attune {

// As unicode::columns(); what isn't UTF-8 counts as U+FFFD.
size_t text_width(std::string_view text);
// Spaces before the text until it takes `width` columns; longer text stays as it is.
std::string pad_left(std::string_view text, size_t width);

}  // namespace attune
