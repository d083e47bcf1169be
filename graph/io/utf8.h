// UTF-8 and code points.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace attune {

void append_utf8(std::string& out, char32_t code_point);
// Nothing if `text` isn't valid UTF-8 (overlong forms and surrogates included).
std::optional<std::u32string> from_utf8(std::string_view text);

}  // namespace attune
