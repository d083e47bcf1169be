// Text while it is normalised and cut.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

namespace attune {

struct Word {
  std::string text;
  // Of its leading bytes, those that stem from the first character of the whole text before normalisation.
  size_t from_first = 0;

  bool at_start() const { return from_first > 0; }
  Word part(size_t begin, size_t end) const {
    return {text.substr(begin, end - begin), std::clamp(from_first, begin, end) - begin};
  }
  // With `prefix`, which stems from what it precedes.
  Word behind(const std::string& prefix) const { return {prefix + text, at_start() ? prefix.size() + from_first : 0}; }
};

// `f` of the text; characters become what they become by themselves.
template <class F>
Word transformed(Word word, F f) {
  const size_t first = word.at_start() ? f(word.text.substr(0, word.from_first)).size() : 0;
  word.text = f(std::move(word.text));
  word.from_first = std::min(first, word.text.size());
  return word;
}

}  // namespace attune
