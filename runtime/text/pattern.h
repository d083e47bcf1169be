// A pattern of tokenizer.json: {"String": ...} or {"Regex": ...}.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/text/regex.h"
#include "runtime/text/word.h"

namespace attune {

std::string replace(std::string_view text, const Matches& matches, std::string_view with);

class TextPattern {
 public:
  explicit TextPattern(const nlohmann::json& description);
  Matches find_all(std::string_view text) const;
  std::string replace_all(std::string_view text, std::string_view with) const {
    return replace(text, find_all(text), with);
  }

 private:
  std::string literal_;
  std::optional<Regex> regex_;
};

// What becomes of the matches when a text is split by them.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };
SplitBehavior split_behavior(const std::string& name);  // throws Error(kUnsupported)

// The parts of `text` between and of `matches` (or of what lies between them, if `invert`); no part is empty.
std::vector<Word> split(const Word& text, const Matches& matches, SplitBehavior behavior, bool invert);

}  // namespace attune
