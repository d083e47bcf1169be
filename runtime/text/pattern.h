// A pattern of tokenizer.json: {"String": ...} or {"Regex": ...}.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/text/unicode.h"

namespace attune {

class TextPattern {
 public:
  explicit TextPattern(const nlohmann::json& description);
  explicit TextPattern(unicode::Regex regex) : regex_(std::move(regex)) {}
  // [begin, end) of each match, left to right, without overlap.
  std::vector<std::pair<size_t, size_t>> find_all(std::string_view text) const;
  std::string replace_all(std::string_view text, std::string_view with) const;

 private:
  std::string literal_;
  std::optional<unicode::Regex> regex_;
};

// What becomes of the matches when a text is split by them.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };
SplitBehavior split_behavior(const std::string& name);  // throws Error(kUnsupported)

// The parts of `text` between and of `matches` (or of what lies between them, if `invert`); no part is empty.
std::vector<std::string> split(std::string_view text, const std::vector<std::pair<size_t, size_t>>& matches,
                               SplitBehavior behavior, bool invert);

}  // namespace attune
