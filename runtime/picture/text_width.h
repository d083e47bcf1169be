// Columns that UTF-8 text takes in a terminal.
#pragma once

#include <string>
#include <string_view>

namespace attune {

// Wide characters (East Asian, emoji) count 2, combining marks of the common blocks 0, all else 1;
// bytes that are not UTF-8 count 1 each.
size_t text_width(std::string_view text);
// Spaces before the text until it takes `width` columns; longer text stays as it is.
std::string pad_left(std::string_view text, size_t width);

}  // namespace attune
