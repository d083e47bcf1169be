#include "runtime/json_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <map>

#include "graph/error.h"
#include "runtime/folder.h"

namespace attune {

using nlohmann::json;

namespace {

// Numbers that JSON has no form for, by their place among the numbers of a document.
using NotFinite = std::map<size_t, double>;

// A whole value stands at [begin, begin + size).
bool is_value(std::string_view text, size_t begin, size_t size) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t before = begin == 0 ? std::string_view::npos : text.find_last_not_of(kBlank, begin - 1);
  const size_t behind = text.find_first_not_of(kBlank, begin + size);
  return (before == std::string_view::npos || std::string_view("[,:").find(text[before]) != std::string_view::npos) &&
         (behind == std::string_view::npos || std::string_view("],}").find(text[behind]) != std::string_view::npos);
}

// Zeros, as long as they are, in their place.
NotFinite blank_not_finite(std::string& text) {
  struct Word {
    std::string_view text, blank;
    double value;
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr std::array kWords{Word{"NaN", "0.0", std::numeric_limits<double>::quiet_NaN()},
                              Word{"Infinity", "0.000000", kInfinity}, Word{"-Infinity", "-0.000000", -kInfinity}};
  constexpr const char* kInNumbers = "+-.0123456789eE";
  NotFinite found;
  size_t numbers = 0;
  for (size_t i = 0; i < text.size();) {
    const auto word = std::find_if(kWords.begin(), kWords.end(),
                                   [&](const Word& w) { return std::string_view(text).substr(i).starts_with(w.text); });
    if (word != kWords.end() && is_value(text, i, word->text.size())) {
      text.replace(i, word->text.size(), word->blank);
      i += word->text.size();
      found.emplace(numbers++, word->value);
    } else if (text[i] == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i) i += text[i] == '\\' ? 1 : 0;
      ++i;
    } else if (text[i] == '-' || std::isdigit(static_cast<unsigned char>(text[i])) != 0) {
      i = std::min(text.find_first_not_of(kInNumbers, i), text.size());
      ++numbers;
    } else {
      ++i;
    }
  }
  return found;
}

}  // namespace

json parse_json(std::string_view text) {
  std::string finite(text);
  const NotFinite others = blank_not_finite(finite);
  if (others.empty()) return json::parse(text);
  size_t numbers = 0;
  return json::parse(finite, [&](int, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::value && value.is_number())
      if (const auto it = others.find(numbers++); it != others.end()) value = it->second;
    return true;
  });
}

std::string json_fault(const std::exception& e) {
  const std::string message = e.what();
  const size_t end = message.starts_with("[json.exception.") ? message.find("] ") : std::string::npos;
  return end == std::string::npos ? message : message.substr(end + 2);
}

std::optional<json> read_json(const std::filesystem::path& file) {
  const auto text = read_bytes(file);
  if (!text) return std::nullopt;
  try {
    return parse_json(*text);
  } catch (const json::exception& e) {
    throw Error(Error::Kind::kInvalidArgument, fmt::format("{}: not valid JSON: {}", file.string(), json_fault(e)));
  }
}

std::optional<json> read_json_object(const std::filesystem::path& file) {
  auto parsed = read_json(file);
  if (parsed && !parsed->is_object())
    throw Error(Error::Kind::kInvalidArgument,
                fmt::format("{}: expected a JSON object, found {}", file.string(), parsed->type_name()));
  return parsed;
}

}  // namespace attune
