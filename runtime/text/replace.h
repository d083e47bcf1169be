// Texts in texts.
#pragma once

#include <string>
#include <string_view>

namespace attune {

// Each `from`, left to right, becomes `to`. An empty `from` is nowhere.
inline void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty()) return;
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

}  // namespace attune
