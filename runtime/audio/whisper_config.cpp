#include "runtime/audio/whisper_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unicode/locid.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>

#include "graph/error.h"
#include "runtime/folder.h"
#include "runtime/json_file.h"

namespace attune {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Names beside those that ICU gives.
constexpr std::array<std::pair<std::string_view, std::string_view>, 20> kOtherNames{
    {{"burmese", "my"},       {"castilian", "es"}, {"flemish", "nl"},   {"haitian", "ht"},   {"javanese", "jw"},
     {"letzeburgesch", "lb"}, {"mandarin", "zh"},  {"maori", "mi"},     {"moldavian", "ro"}, {"moldovan", "ro"},
     {"myanmar", "my"},       {"nynorsk", "nn"},   {"panjabi", "pa"},   {"pushto", "ps"},    {"sinhala", "si"},
     {"sinhalese", "si"},     {"tagalog", "tl"},   {"valencian", "ca"}, {"catalan", "ca"},   {"cantonese", "yue"}}};

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// "german" for "de".
std::string english_name(const std::string& code) {
  icu::UnicodeString name;
  icu::Locale(code.c_str()).getDisplayLanguage(icu::Locale::getEnglish(), name);
  std::string out;
  return lower(name.toUTF8String(out));
}

json configuration(const fs::path& folder, const char* name) {
  return read_json_object(configuration_file(folder, name)).value_or(json::object());
}

template <class T>
void read(const json& object, const char* name, T& into) {
  const auto it = object.find(name);
  if (it == object.end() || it->is_null()) return;
  try {
    it->get_to(into);
  } catch (const json::exception&) {
    throw Error(Error::Kind::kInvalidArgument, fmt::format("option {}: unexpected value {}", name, it->dump()));
  }
}

// [[1, token or null], [2, token], ...] to the tokens, in this order from 1 on.
std::vector<std::optional<int64_t>> forced_prompt(const json& generation, const json& config) {
  static constexpr const char* kName = "forced_decoder_ids";
  const auto given = [](const json& j) { return j.contains(kName) && !j[kName].is_null(); };
  std::vector<std::optional<int64_t>> out;
  if (!given(generation) && !given(config)) return out;
  for (const json& pair : given(generation) ? generation[kName] : config[kName]) {
    if (!pair.is_array() || pair.size() != 2 || pair[0] != static_cast<int64_t>(out.size() + 1))
      throw Error(Error::Kind::kInvalidArgument, fmt::format("{}: expected pairs of 1, 2 ... and a token", kName));
    out.push_back(pair[1].is_number_integer() ? std::optional(pair[1].get<int64_t>()) : std::nullopt);
  }
  return out;
}

}  // namespace

WhisperConfig read_whisper_config(const fs::path& folder) {
  const json generation = configuration(folder, "generation_config.json"),
             config = configuration(folder, "config.json");
  WhisperConfig c;
  read(generation, "is_multilingual", c.multilingual);
  read(generation, "lang_to_id", c.languages);
  read(generation, "task_to_id", c.tasks);
  read(generation, "language", c.language);
  read(generation, "task", c.task);
  int64_t previous = -1;
  read(generation, "prev_sot_token_id", previous);
  if (previous >= 0) c.previous_text_token = previous;
  read(config, "max_source_positions", c.source_positions);
  read(config, "max_target_positions", c.target_positions);
  read(config, "median_filter_width", c.median_filter_width);
  read(config, "vocab_size", c.vocabulary);
  c.forced_prompt = forced_prompt(generation, config);
  if (c.source_positions < 1 || c.target_positions < 4 || c.vocabulary < 2 || c.median_filter_width < 1 ||
      c.median_filter_width % 2 == 0)
    throw Error(Error::Kind::kInvalidArgument, "config.json: a size is out of range");
  return c;
}

int64_t language_token(const WhisperConfig& config, std::string_view language) {
  const std::string wanted = lower(language);
  const auto other =
      std::find_if(kOtherNames.begin(), kOtherNames.end(), [&](const auto& n) { return n.first == wanted; });
  std::vector<std::string> codes;
  for (const auto& [token, id] : config.languages) {
    const std::string code = language_code(config, id);
    if (wanted == token || wanted == code || wanted == english_name(code)) return id;
    if (other != kOtherNames.end() && other->second == code) return id;
    codes.push_back(code);
  }
  throw Error(Error::Kind::kInvalidArgument,
              fmt::format("language '{}': the model knows {}", language,
                          codes.empty() ? "no names of languages" : fmt::format("{}", fmt::join(codes, " "))));
}

std::string language_code(const WhisperConfig& config, int64_t token) {
  for (const auto& [name, id] : config.languages) {
    if (id != token) continue;
    const bool marked = name.size() > 4 && name.starts_with("<|") && name.ends_with("|>");
    return marked ? name.substr(2, name.size() - 4) : name;
  }
  return {};
}

}  // namespace attune
