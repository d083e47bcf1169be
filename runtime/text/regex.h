// Regular expressions of tokenizer.json, by Oniguruma: the engine that they are written for.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

struct re_pattern_buffer;  // Oniguruma's

namespace attune {

using Matches = std::vector<std::pair<size_t, size_t>>;  // [begin, end) of each, left to right, without overlap

class Regex {
 public:
  // Throws Error(kInvalidModel) if the pattern isn't one.
  explicit Regex(std::string_view pattern);
  // In UTF-8. Empty matches count, but not where the match before ends nor in an empty text. Throws
  // Error(kInvalidModel) if Oniguruma goes back 10^7 times from one start (its limit), or 10^8 times in all before a
  // match; each time may cost as much as the text is long.
  Matches find_all(std::string_view text) const;

 private:
  std::shared_ptr<re_pattern_buffer> regex_;
};

}  // namespace attune
