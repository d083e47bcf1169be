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
  std::string run(std::string text) const override { return f_(std::move(text)); }

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

std::string strip(const std::string& text, bool left, bool right) {
  const std::u32string s = unicode::decode(text);
  size_t begin = 0, end = s.size();
  while (left && begin < end && unicode::is_whitespace(s[begin])) ++begin;
  while (right && end > begin && unicode::is_whitespace(s[end - 1])) --end;
  return unicode::encode(std::u32string_view(s).substr(begin, end - begin));
}

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
  const auto form = [](unicode::Form f) { return function([f](std::string t) { return unicode::normalize(t, f); }); };
  if (type == "NFC") return form(unicode::Form::kNfc);
  if (type == "NFD") return form(unicode::Form::kNfd);
  if (type == "NFKC") return form(unicode::Form::kNfkc);
  if (type == "NFKD") return form(unicode::Form::kNfkd);
  if (type == "Lowercase") return function([](std::string t) { return unicode::lower(t); });
  if (type == "StripAccents")
    return function([](std::string t) { return filter(t, [](char32_t c) { return !unicode::is_mark(c); }); });
  if (type == "Strip")
    return function(
        [l = j.value("strip_left", true), r = j.value("strip_right", true)](std::string t) { return strip(t, l, r); });
  if (type == "Prepend")
    return function([p = j.at("prepend").get<std::string>()](std::string t) { return t.empty() ? t : p + t; });
  if (type == "BertNormalizer") return bert(j);
  if (type == "Replace") {
    auto pattern = std::make_shared<TextPattern>(j.at("pattern"));
    return function(
        [pattern, with = j.at("content").get<std::string>()](std::string t) { return pattern->replace_all(t, with); });
  }
  if (type == "Precompiled") {
    if (j.at("precompiled_charsmap").is_null()) return function([](std::string t) { return t; });
    auto map = std::make_shared<CharsMap>(j.at("precompiled_charsmap").get<std::string>());
    return function([map](std::string t) { return map->normalize(t); });
  }
  if (type == "Nmt")
    return function([](std::string t) {
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
  if (type == "Sequence") {
    auto parts = std::make_shared<std::vector<std::unique_ptr<Normalizer>>>();
    for (const json& part : j.at("normalizers")) parts->push_back(make_normalizer(part));
    return function([parts](std::string t) {
      for (const auto& p : *parts) t = p->run(std::move(t));
      return t;
    });
  }
  throw Error(Error::Kind::kUnsupported, fmt::format("normalizer '{}'", type));
}

}  // namespace attune
