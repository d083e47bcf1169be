#include "runtime/text/regex.h"

#include <fmt/format.h>
#include <oniguruma.h>

#include <algorithm>
#include <optional>

#include "graph/error.h"

namespace attune {
namespace {

const OnigUChar* bytes(const char* text) { return reinterpret_cast<const OnigUChar*>(text); }

[[noreturn]] void fail(std::string_view what, int code, OnigErrorInfo* info = nullptr) {
  OnigUChar message[ONIG_MAX_ERROR_MESSAGE_LEN];
  const int size = onig_error_code_to_str(message, code, info);
  throw Error(
      Error::Kind::kInvalidModel,
      fmt::format("{}: {}", what, std::string_view(reinterpret_cast<const char*>(message), static_cast<size_t>(size))));
}

// Once, before all else. A search may start at each character, and is bounded by itself only for one start.
constexpr unsigned long kMostRetries = 100'000'000;
void initialize() {
  static const int status = [] {
    OnigEncoding utf8 = ONIG_ENCODING_UTF8;
    const int initialized = onig_initialize(&utf8, 1);
    return initialized == ONIG_NORMAL ? onig_set_retry_limit_in_search(kMostRetries) : initialized;
  }();
  if (status != ONIG_NORMAL) fail("regular expressions", status);
}

// Where the character behind the one at `at` begins; at the end, one further.
size_t next_character(std::string_view text, size_t at) {
  do ++at;
  while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0u) == 0x80u);
  return at;
}

}  // namespace

Regex::Regex(std::string_view pattern) {
  initialize();
  OnigRegex regex = nullptr;
  OnigErrorInfo info{};
  const int status = onig_new(&regex, bytes(pattern.data()), bytes(pattern.data() + pattern.size()), ONIG_OPTION_NONE,
                              ONIG_ENCODING_UTF8, ONIG_SYNTAX_DEFAULT, &info);
  if (status != ONIG_NORMAL) fail(fmt::format("regular expression '{}'", pattern), status, &info);
  regex_.reset(regex, onig_free);
}

Matches Regex::find_all(std::string_view text) const {
  Matches out;
  if (text.empty()) return out;
  const std::unique_ptr<OnigRegion, void (*)(OnigRegion*)> region(onig_region_new(),
                                                                  [](OnigRegion* r) { onig_region_free(r, 1); });
  const OnigUChar *begin = bytes(text.data()), *end = begin + text.size();
  std::optional<size_t> last_end;
  for (size_t at = 0; at <= text.size();) {
    const int found = onig_search(regex_.get(), begin, end, begin + at, end, region.get(), ONIG_OPTION_NONE);
    if (found == ONIG_MISMATCH) break;
    if (found < 0) fail("regular expression", found);
    const auto to = static_cast<size_t>(region->end[0]);
    // \K within a look-behind keeps what lies before.
    const size_t from = std::max(at, static_cast<size_t>(region->beg[0]));
    const bool again = from == to && last_end == to;
    if (!again) out.emplace_back(from, to);
    last_end = to;
    at = again ? next_character(text, to) : to;
  }
  return out;
}

}  // namespace attune
