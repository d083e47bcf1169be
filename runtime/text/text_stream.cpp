#include "runtime/text/text_stream.h"

#include <string_view>

namespace attune {

std::string TextStream::push(int64_t token) {
  constexpr std::string_view kReplacement = "\xef\xbf\xbd";
  tokens_.push_back(token);
  std::string text = tokenizer_.decode(tokens_);
  while (text.ends_with(kReplacement)) text.resize(text.size() - kReplacement.size());
  return rest(text);
}

std::string TextStream::finish() {
  std::string out = rest(tokenizer_.decode(tokens_));
  tokens_.clear();
  given_.clear();
  return out;
}

// What `text` has beyond that which was given. A decoder that changes text it has given already is waited for.
std::string TextStream::rest(const std::string& text) {
  if (!text.starts_with(given_)) return {};
  std::string out = text.substr(given_.size());
  given_ = text;
  return out;
}

}  // namespace attune
