#include "runtime/text/token_decoder.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "graph/error.h"
#include "runtime/text/byte_level.h"
#include "runtime/text/pattern.h"
#include "runtime/text/replace.h"
#include "runtime/text/unicode.h"

namespace attune {
namespace {

using nlohmann::json;
using Tokens = std::vector<std::string>;

template <class F>
class FunctionDecoder : public TokenDecoder {
 public:
  explicit FunctionDecoder(F f) : f_(std::move(f)) {}
  Tokens run(Tokens tokens) const override { return f_(std::move(tokens)); }

 private:
  F f_;
};

template <class F>
std::unique_ptr<TokenDecoder> function(F f) {
  return std::make_unique<FunctionDecoder<F>>(std::move(f));
}

// Blanks before punctuation and English contractions go.
std::string clean_up(std::string text) {
  for (const auto& [from, to] : {std::pair{" .", "."},
                                 {" ?", "?"},
                                 {" !", "!"},
                                 {" ,", ","},
                                 {" ' ", "'"},
                                 {" n't", "n't"},
                                 {" 'm", "'m"},
                                 {" do not", " don't"},
                                 {" 's", "'s"},
                                 {" 've", "'ve"},
                                 {" 're", "'re"}})
    replace_all(text, from, to);
  return text;
}

Tokens word_piece(const Tokens& tokens, const std::string& prefix, bool cleanup) {
  Tokens out;
  for (size_t i = 0; i < tokens.size(); ++i) {
    std::string t = tokens[i];
    if (i > 0) t = t.starts_with(prefix) ? t.substr(prefix.size()) : " " + t;
    out.push_back(cleanup ? clean_up(std::move(t)) : std::move(t));
  }
  return out;
}

std::string join(const Tokens& tokens) {
  std::string out;
  for (const std::string& t : tokens) out += t;
  return out;
}

// Tokens of bytes, joined: UTF-8 as far as it is valid, U+FFFD where it is not.
std::string valid_utf8(const std::string& bytes) { return unicode::encode(unicode::decode(bytes)); }

Tokens byte_level(const Tokens& tokens) {
  std::string bytes;
  for (const std::string& t : tokens) {
    const auto b = alphabet_to_bytes(t);
    bytes += b ? *b : t;
  }
  return {valid_utf8(bytes)};
}

std::optional<char> byte_of(const std::string& token) {
  unsigned value = 0;
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, value, 16);
  if (error != std::errc() || end != token.data() + 5) return std::nullopt;
  return static_cast<char>(value);
}

// Runs of byte tokens become text; a run that isn't UTF-8 becomes one U+FFFD for each byte.
Tokens byte_fallback(const Tokens& tokens) {
  Tokens out;
  std::string bytes;
  const auto flush = [&] {
    if (bytes.empty()) return;
    const std::string text = valid_utf8(bytes);
    if (text == bytes) {
      out.push_back(text);
    } else {
      for (size_t i = 0; i < bytes.size(); ++i) out.push_back("\xef\xbf\xbd");
    }
    bytes.clear();
  };
  for (const std::string& t : tokens) {
    if (const auto b = byte_of(t)) {
      bytes += *b;
    } else {
      flush();
      out.push_back(t);
    }
  }
  flush();
  return out;
}

// Marks become blanks; with a `prefix`, all of the first token's go.
Tokens metaspace(Tokens tokens, const std::string& replacement, bool prefix) {
  for (size_t i = 0; i < tokens.size(); ++i) replace_all(tokens[i], replacement, i == 0 && prefix ? "" : " ");
  return tokens;
}

Tokens strip(Tokens tokens, const std::string& content, size_t start, size_t stop) {
  for (std::string& t : tokens) {
    for (size_t i = 0; i < start && t.starts_with(content); ++i) t.erase(0, content.size());
    for (size_t i = 0; i < stop && t.ends_with(content); ++i) t.erase(t.size() - content.size());
  }
  return tokens;
}

}  // namespace

std::unique_ptr<TokenDecoder> make_token_decoder(const json& j) {
  if (j.is_null()) return nullptr;
  const std::string type = j.at("type");
  if (type == "ByteLevel") return function([](Tokens t) { return byte_level(t); });
  if (type == "ByteFallback") return function([](Tokens t) { return byte_fallback(t); });
  if (type == "Fuse") return function([](Tokens t) { return Tokens{join(t)}; });
  if (type == "WordPiece")
    return function(
        [p = j.value("prefix", "##"), c = j.value("cleanup", true)](Tokens t) { return word_piece(t, p, c); });
  if (type == "Metaspace") {
    const bool prefix = j.value("prepend_scheme", j.value("add_prefix_space", true) ? "always" : "never") != "never";
    return function(
        [r = j.value("replacement", "\u2581"), prefix](Tokens t) { return metaspace(std::move(t), r, prefix); });
  }
  if (type == "BPEDecoder")
    return function([suffix = j.value("suffix", "</w>")](Tokens t) {
      for (size_t i = 0; i < t.size(); ++i) replace_all(t[i], suffix, i + 1 == t.size() ? "" : " ");
      return t;
    });
  if (type == "Replace") {
    auto pattern = std::make_shared<TextPattern>(j.at("pattern"));
    return function([pattern, with = j.at("content").get<std::string>()](Tokens t) {
      for (std::string& s : t) s = pattern->replace_all(s, with);
      return t;
    });
  }
  if (type == "Strip")
    return function([c = j.at("content").get<std::string>(), b = j.value("start", size_t{0}),
                     e = j.value("stop", size_t{0})](Tokens t) { return strip(std::move(t), c, b, e); });
  if (type == "Sequence") {
    auto parts = std::make_shared<std::vector<std::unique_ptr<TokenDecoder>>>();
    for (const json& p : j.at("decoders")) parts->push_back(make_token_decoder(p));
    return function([parts](Tokens t) {
      for (const auto& p : *parts) t = p->run(std::move(t));
      return t;
    });
  }
  throw Error(Error::Kind::kUnsupported, fmt::format("decoder '{}'", type));
}

}  // namespace attune
