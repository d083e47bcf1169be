// What the configuration files of a Whisper model say beyond generation itself. Internal to the transcriber.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attune {

struct WhisperConfig {
  bool multilingual = true;
  std::map<std::string, int64_t> languages;  // "<|en|>" to its token; empty: the model knows one language
  std::map<std::string, int64_t> tasks;      // "transcribe", "translate"
  std::string language, task;                // defaults, may be empty
  // Older configurations: tokens of the prompt behind the start; none: a language to be detected.
  std::vector<std::optional<int64_t>> forced_prompt;
  std::optional<int64_t> previous_text_token;               // <|startofprev|>
  int64_t source_positions = 1500, target_positions = 448;  // of encoder and decoder
  int64_t median_filter_width = 7;
  int64_t vocabulary = 51865;
};

// Reads generation_config.json and config.json of a folder (or of the folder above it). Throws Error(kIo).
WhisperConfig read_whisper_config(const std::filesystem::path& folder);

// The token of a language, given as a code ("de"), a token ("<|de|>") or an English name ("German"). Throws
// Error(kInvalidArgument) that lists the languages of the model.
int64_t language_token(const WhisperConfig& config, std::string_view language);
// "de" for the token of <|de|>; empty for others.
std::string language_code(const WhisperConfig& config, int64_t token);

}  // namespace attune
