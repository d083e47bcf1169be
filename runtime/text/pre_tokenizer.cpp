#include "runtime/text/pre_tokenizer.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "graph/error.h"
#include "runtime/text/byte_level.h"
#include "runtime/text/pattern.h"
#include "runtime/text/replace.h"
#include "runtime/text/unicode.h"

namespace attune {
namespace {

using nlohmann::json;

// Each character that `is_match` holds for, as a match of its own.
template <class F>
Matches characters(std::string_view text, F is_match) {
  Matches out;
  size_t at = 0;
  for (const char32_t c : unicode::decode(text)) {
    const size_t size = unicode::encode(c).size();
    if (is_match(c)) out.emplace_back(at, at + size);
    at += size;
  }
  return out;
}

// Runs of characters of words, and runs of others that are no white space.
Matches words_and_signs(std::string_view text) {
  enum class Kind { kBlank, kWord, kSign } last = Kind::kBlank;
  Matches out;
  size_t at = 0;
  for (const char32_t c : unicode::decode(text)) {
    const Kind kind = unicode::is_word(c) ? Kind::kWord : unicode::is_whitespace(c) ? Kind::kBlank : Kind::kSign;
    const size_t end = at + unicode::encode(c).size();
    if (kind != Kind::kBlank && kind == last) {
      out.back().second = end;
    } else if (kind != Kind::kBlank) {
      out.emplace_back(at, end);
    }
    last = kind;
    at = end;
  }
  return out;
}

template <class F>
class EachWord : public PreTokenizer {
 public:
  explicit EachWord(F f) : f_(std::move(f)) {}
  std::vector<Word> run(std::vector<Word> words) const override {
    std::vector<Word> out;
    for (const Word& word : words)
      for (Word& part : f_(word)) out.push_back(std::move(part));
    return out;
  }

 private:
  F f_;
};

// As BERT's tokenizer has it: all of ASCII that is no letter, digit, blank or control, too.
bool is_punctuation(char32_t c) {
  const bool ascii = (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
  return ascii || unicode::is_punctuation(c);
}

template <class F>
std::unique_ptr<PreTokenizer> each_word(F f) {
  return std::make_unique<EachWord<F>>(std::move(f));
}

// Splits at characters of a class.
template <class F>
std::unique_ptr<PreTokenizer> split_at(F is_match, SplitBehavior behavior) {
  return each_word([=](const Word& w) { return split(w, characters(w.text, is_match), behavior, false); });
}

std::unique_ptr<PreTokenizer> byte_level(const json& j) {
  constexpr std::string_view kPattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
  const bool prefix = j.value("add_prefix_space", true), use_regex = j.value("use_regex", true);
  const Regex regex(kPattern);
  return each_word([=](const Word& word) {
    const Word w = prefix && !word.text.starts_with(' ') ? word.behind(" ") : word;
    auto parts = use_regex ? split(w, regex.find_all(w.text), SplitBehavior::kIsolated, false) : std::vector{w};
    for (Word& p : parts) p = transformed(std::move(p), bytes_to_alphabet);
    return parts;
  });
}

std::unique_ptr<PreTokenizer> metaspace(const json& j) {
  const std::string replacement = j.value("replacement", "\u2581");
  std::string scheme = j.value("prepend_scheme", j.value("add_prefix_space", true) ? "always" : "never");
  const bool cut = j.value("split", true);
  return each_word([=](const Word& word) {
    Word w = transformed(word, [&](std::string text) {
      replace_all(text, " ", replacement);
      return text;
    });
    if ((scheme == "always" || (scheme == "first" && w.at_start())) && !w.text.starts_with(replacement))
      w = w.behind(replacement);
    if (!cut) return std::vector{w};
    return split(w, TextPattern{json(replacement)}.find_all(w.text), SplitBehavior::kMergedWithNext, false);
  });
}

class SequencePreTokenizer : public PreTokenizer {
 public:
  explicit SequencePreTokenizer(const json& parts) {
    for (const json& p : parts) parts_.push_back(make_pre_tokenizer(p));
  }
  std::vector<Word> run(std::vector<Word> words) const override {
    for (const auto& p : parts_) words = p->run(std::move(words));
    return words;
  }

 private:
  std::vector<std::unique_ptr<PreTokenizer>> parts_;
};

}  // namespace

std::unique_ptr<PreTokenizer> make_pre_tokenizer(const json& j) {
  if (j.is_null()) return nullptr;
  const std::string type = j.at("type");
  if (type == "WhitespaceSplit") return split_at(unicode::is_whitespace, SplitBehavior::kRemoved);
  if (type == "Whitespace")
    return each_word([](const Word& w) { return split(w, words_and_signs(w.text), SplitBehavior::kRemoved, true); });
  if (type == "BertPreTokenizer")
    return each_word([](const Word& w) {
      std::vector<Word> out;
      for (const Word& word : split(w, characters(w.text, unicode::is_whitespace), SplitBehavior::kRemoved, false)) {
        for (Word& p : split(word, characters(word.text, is_punctuation), SplitBehavior::kIsolated, false))
          out.push_back(std::move(p));
      }
      return out;
    });
  if (type == "Punctuation") return split_at(is_punctuation, split_behavior(j.value("behavior", "Isolated")));
  if (type == "Digits")
    return split_at(unicode::is_numeric,
                    j.value("individual_digits", false) ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
  if (type == "CharDelimiterSplit") {
    const auto delimiter = unicode::decode(j.at("delimiter").get<std::string>());
    return split_at([d = delimiter.at(0)](char32_t c) { return c == d; }, SplitBehavior::kRemoved);
  }
  if (type == "Split") {
    auto pattern = std::make_shared<TextPattern>(j.at("pattern"));
    const SplitBehavior behavior = split_behavior(j.at("behavior"));
    return each_word([pattern, behavior, invert = j.value("invert", false)](const Word& w) {
      return split(w, pattern->find_all(w.text), behavior, invert);
    });
  }
  if (type == "ByteLevel") return byte_level(j);
  if (type == "Metaspace") return metaspace(j);
  if (type == "Sequence") return std::make_unique<SequencePreTokenizer>(j.at("pretokenizers"));
  throw Error(Error::Kind::kUnsupported, fmt::format("pre-tokenizer '{}'", type));
}

}  // namespace attune
