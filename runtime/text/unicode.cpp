#include "runtime/text/unicode.h"

#include <fmt/format.h>
#include <unicode/brkiter.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>
#include <unicode/utext.h>

#include "graph/error.h"
#include "graph/io/utf8.h"

namespace attune::unicode {
namespace {

icu::UnicodeString to_icu(std::string_view text) {
  return icu::UnicodeString::fromUTF8(icu::StringPiece(text.data(), static_cast<int32_t>(text.size())));
}

std::string from_icu(const icu::UnicodeString& text) {
  std::string out;
  text.toUTF8String(out);
  return out;
}

void check(UErrorCode status, std::string_view what) {
  if (U_FAILURE(status)) throw Error(Error::Kind::kInvalidModel, fmt::format("{}: {}", what, u_errorName(status)));
}

// UTF-8 text as ICU iterates it, closed at the end.
class Utf8Text {
 public:
  explicit Utf8Text(std::string_view text) {
    UErrorCode status = U_ZERO_ERROR;
    text_ = utext_openUTF8(nullptr, text.data(), static_cast<int64_t>(text.size()), &status);
    check(status, "text");
  }
  ~Utf8Text() { utext_close(text_); }
  Utf8Text(const Utf8Text&) = delete;
  Utf8Text& operator=(const Utf8Text&) = delete;
  UText* get() const { return text_; }

 private:
  UText* text_ = nullptr;
};

}  // namespace

std::string normalize(std::string_view text, Form form) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* normalizer = form == Form::kNfc    ? icu::Normalizer2::getNFCInstance(status)
                                       : form == Form::kNfd  ? icu::Normalizer2::getNFDInstance(status)
                                       : form == Form::kNfkc ? icu::Normalizer2::getNFKCInstance(status)
                                                             : icu::Normalizer2::getNFKDInstance(status);
  check(status, "Unicode normalisation");
  const icu::UnicodeString out = normalizer->normalize(to_icu(text), status);
  check(status, "Unicode normalisation");
  return from_icu(out);
}

std::string lower(std::string_view text) {
  const icu::UnicodeString s = to_icu(text);
  icu::UnicodeString out;
  for (int32_t i = 0; i < s.length(); i = s.moveIndex32(i, 1))
    out += icu::UnicodeString(s.char32At(i)).toLower(icu::Locale::getRoot());
  return from_icu(out);
}

bool is_valid(std::string_view text) { return from_utf8(text).has_value(); }

std::u32string decode(std::string_view text) {
  const icu::UnicodeString s = to_icu(text);
  std::u32string out;
  out.reserve(static_cast<size_t>(s.length()));
  for (int32_t i = 0; i < s.length(); i = s.moveIndex32(i, 1)) out.push_back(static_cast<char32_t>(s.char32At(i)));
  return out;
}

std::string encode(char32_t c) {
  std::string out;
  append_utf8(out, c);
  return out;
}

std::string encode(std::u32string_view text) {
  std::string out;
  for (const char32_t c : text) append_utf8(out, c);
  return out;
}

std::vector<std::string_view> graphemes(std::string_view text) {
  std::vector<std::string_view> out;
  UErrorCode status = U_ZERO_ERROR;
  const std::unique_ptr<icu::BreakIterator> breaks(
      icu::BreakIterator::createCharacterInstance(icu::Locale::getRoot(), status));
  check(status, "grapheme clusters");
  const Utf8Text utext(text);
  breaks->setText(utext.get(), status);
  check(status, "grapheme clusters");
  int32_t begin = breaks->first();
  for (int32_t end = breaks->next(); end != icu::BreakIterator::DONE; begin = end, end = breaks->next())
    out.push_back(text.substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
  return out;
}

bool is_whitespace(char32_t c) { return u_isUWhiteSpace(static_cast<UChar32>(c)); }

bool is_other(char32_t c) {
  const auto t = u_charType(static_cast<UChar32>(c));
  return t == U_CONTROL_CHAR || t == U_FORMAT_CHAR || t == U_PRIVATE_USE_CHAR;
}

bool is_word(char32_t c) {
  constexpr uint32_t kCategories = U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK;
  const auto point = static_cast<UChar32>(c);
  return (U_MASK(u_charType(point)) & kCategories) != 0 || u_hasBinaryProperty(point, UCHAR_ALPHABETIC) ||
         u_hasBinaryProperty(point, UCHAR_JOIN_CONTROL);
}

size_t columns(char32_t c) {
  const auto point = static_cast<UChar32>(c);
  constexpr uint32_t kNone = U_GC_MN_MASK | U_GC_ME_MASK | U_GC_CF_MASK;
  if ((U_MASK(u_charType(point)) & kNone) != 0) return 0;
  const auto width = u_getIntPropertyValue(point, UCHAR_EAST_ASIAN_WIDTH);
  return width == U_EA_WIDE || width == U_EA_FULLWIDTH ? 2 : 1;
}

bool is_nonspacing_mark(char32_t c) { return u_charType(static_cast<UChar32>(c)) == U_NON_SPACING_MARK; }
bool is_mark(char32_t c) { return (U_MASK(u_charType(static_cast<UChar32>(c))) & U_GC_M_MASK) != 0; }
bool is_punctuation(char32_t c) { return (U_MASK(u_charType(static_cast<UChar32>(c))) & U_GC_P_MASK) != 0; }
bool is_numeric(char32_t c) { return (U_MASK(u_charType(static_cast<UChar32>(c))) & U_GC_N_MASK) != 0; }

bool is_cjk_ideograph(char32_t c) {
  return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
         (c >= 0x2a700 && c <= 0x2b73f) || (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

}  // namespace attune::unicode
