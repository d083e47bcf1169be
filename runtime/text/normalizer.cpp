#include "runtime/text/normalizer.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "graph/error.h"
#include "runtime/text/charsmap.h"
#include "runtime/text/pattern.h"
#include "runtime/text/unicode.h"

namespace attune {
namespace {

using nlohmann::json;

template <class F>
class FunctionNormalizer : public Normalizer {
 public:
  explicit FunctionNormalizer(F f) : f_(std::move(f)) {}
  Word run(Word text) const override { return transformed(std::move(text), f_); }

 private:
  F f_;
};

template <class F>
std::unique_ptr<Normalizer> function(F f) {
  return std::make_unique<FunctionNormalizer<F>>(std::move(f));
}

template <class F>
std::string filter(const std::string& text, F keep) {
  std::string out;
  for (const char32_t c : unicode::decode(text))
    if (keep(c)) out += unicode::encode(c);
  return out;
}

class Strip : public Normalizer {
 public:
  explicit Strip(const json& j) : left_(j.value("strip_left", true)), right_(j.value("strip_right", true)) {}
  Word run(Word text) const override {
    const std::u32string s = unicode::decode(text.text);
    size_t begin = 0, end = s.size();
    while (left_ && begin < end && unicode::is_whitespace(s[begin])) ++begin;
    while (right_ && end > begin && unicode::is_whitespace(s[end - 1])) --end;
    const auto size = [&](size_t from, size_t to) {
      return unicode::encode(std::u32string_view(s).substr(from, to - from)).size();
    };
    const size_t skipped = size(0, begin);
    return text.part(skipped, skipped + size(begin, end));
  }

 private:
  bool left_, right_;
};

class Replace : public Normalizer {
 public:
  explicit Replace(const json& j) : pattern_(j.at("pattern")), with_(j.at("content")) {}
  Word run(Word text) const override {
    const auto matches = pattern_.find_all(text.text);
    return {replace(text.text, matches, with_), text.at_start() ? first(text.from_first, matches) : 0};
  }

 private:
  // Of what replaces a match, the origin is that of the match's last character.
  size_t first(size_t from_first, const Matches& matches) const {
    size_t size = 0, from = 0;
    for (const auto& [begin, end] : matches) {
      if (end > from_first) return size + std::min(begin, from_first) - from;
      size += begin - from + with_.size();
      from = end;
    }
    return size + from_first - from;
  }

  TextPattern pattern_;
  std::string with_;
};

class SequenceNormalizer : public Normalizer {
 public:
  explicit SequenceNormalizer(const json& parts) {
    for (const json& p : parts) parts_.push_back(make_normalizer(p));
  }
  Word run(Word text) const override {
    for (const auto& p : parts_) text = p->run(std::move(text));
    return text;
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> parts_;
};

// BERT: control characters (form feeds, too) go, white space becomes a blank, ideographs stand alone, accents go, lower
// case.
std::unique_ptr<Normalizer> bert(const json& j) {
  const bool clean = j.value("clean_text", true), chinese = j.value("handle_chinese_chars", true),
             lower = j.value("lowercase", true);
  const bool accents =
      j.contains("strip_accents") && !j["strip_accents"].is_null() ? j["strip_accents"].get<bool>() : lower;
  return function([=](std::string text) {
    std::u32string s;
    for (const char32_t c : unicode::decode(text)) {
      const bool layout = c == '\t' || c == '\n' || c == '\r', blank = layout || unicode::is_whitespace(c);
      if (clean && (c == 0xfffd || (unicode::is_other(c) && !layout))) continue;
      if (chinese && unicode::is_cjk_ideograph(c)) {
        s += {U' ', c, U' '};
      } else {
        s += clean && blank ? U' ' : c;
      }
    }
    text = unicode::encode(s);
    if (accents)
      text = filter(unicode::normalize(text, unicode::Form::kNfd),
                    [](char32_t c) { return !unicode::is_nonspacing_mark(c); });
    return lower ? unicode::lower(text) : text;
  });
}

}  // namespace

std::unique_ptr<Normalizer> make_normalizer(const json& j) {
  if (j.is_null()) return nullptr;
  const std::string type = j.at("type");
  const auto form = [](unicode::Form f) {
    return function([f](const std::string& t) { return unicode::normalize(t, f); });
  };
  if (type == "NFC") return form(unicode::Form::kNfc);
  if (type == "NFD") return form(unicode::Form::kNfd);
  if (type == "NFKC") return form(unicode::Form::kNfkc);
  if (type == "NFKD") return form(unicode::Form::kNfkd);
  if (type == "Lowercase") return function([](const std::string& t) { return unicode::lower(t); });
  if (type == "StripAccents")
    return function([](const std::string& t) { return filter(t, [](char32_t c) { return !unicode::is_mark(c); }); });
  if (type == "Strip") return std::make_unique<Strip>(j);
  if (type == "Prepend")
    return function([p = j.at("prepend").get<std::string>()](const std::string& t) { return t.empty() ? t : p + t; });
  if (type == "BertNormalizer") return bert(j);
  if (type == "Replace") return std::make_unique<Replace>(j);
  if (type == "Precompiled") {
    if (j.at("precompiled_charsmap").is_null()) return function([](const std::string& t) { return t; });
    auto map = std::make_shared<CharsMap>(j.at("precompiled_charsmap").get<std::string>());
    return function([map](const std::string& t) { return map->normalize(t); });
  }
  if (type == "Nmt")
    return function([](const std::string& t) {
      std::string out;
      for (const char32_t c : unicode::decode(t)) {
        const bool dropped =
            (c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f;
        const bool blank = c == 9 || c == 10 || c == 12 || c == 13 || c == 0x1680 || (c >= 0x200b && c <= 0x200f) ||
                           c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd;
        if (!dropped) out += blank ? std::string(" ") : unicode::encode(c);
      }
      return out;
    });
  if (type == "Sequence") return std::make_unique<SequenceNormalizer>(j.at("normalizers"));
  throw Error(Error::Kind::kUnsupported, fmt::format("normalizer '{}'", type));
}

}  // namespace attune
