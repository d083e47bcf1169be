#include "runtime/generation_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <type_traits>
#include <utility>

#include "graph/error.h"
#include "runtime/json_file.h"

namespace attune {
namespace {

using nlohmann::json;

[[noreturn]] void invalid(std::string message) { throw Error(Error::Kind::kInvalidArgument, std::move(message)); }

// What an option of type T is, in words.
template <class T>
std::string kind_of() {
  if constexpr (std::is_same_v<T, bool>) return "true or false";
  if constexpr (std::is_integral_v<T>) return "a whole number";
  if constexpr (std::is_floating_point_v<T>) return "a number";
  return "a pair of numbers";
}
template <class T>
std::string kinds_of() {
  return std::is_integral_v<T> ? "whole numbers" : "lists of whole numbers";
}

// JSON has no text for infinity.
std::string text_of(const json& v) {
  return v.is_number_float() && !std::isfinite(v.get<double>()) ? fmt::format("{}", v.get<double>()) : v.dump();
}

// Reads options from one object. Null: none, where an option may be none; else as if it weren't there.
class OptionReader {
 public:
  explicit OptionReader(const json& object) : object_(object) {}

  template <class T>
  void read(const char* name, T& into) const {
    if (const json* v = find(name)) convert(name, kind_of<T>(), [&] { into = value<T>(name, *v); });
  }
  template <class T>
  void read(const char* name, std::optional<T>& into) const {
    if (is_null(name)) into.reset();
    if (const json* v = find(name)) convert(name, kind_of<T>(), [&] { into = value<T>(name, *v); });
  }
  template <class T>
  void read(const char* name, std::vector<T>& into) const {
    if (is_null(name)) into.clear();
    if (const json* v = find(name))
      convert(name, "a list of " + kinds_of<T>(), [&] { into = v->get<std::vector<T>>(); });
  }
  // A token or a list of tokens.
  void read_tokens(const char* name, std::vector<int64_t>& into) const {
    if (is_null(name)) into.clear();
    const json* v = find(name);
    if (!v) return;
    convert(name, "a token or a list of tokens",
            [&] { into = v->is_array() ? v->get<std::vector<int64_t>>() : std::vector<int64_t>{v->get<int64_t>()}; });
  }
  // A list of tokens, or a list of such lists.
  void read_token_lists(const char* name, std::vector<std::vector<int64_t>>& into) const {
    const json* v = find(name);
    if (!v) return;
    convert(name, "lists of tokens", [&] {
      const bool flat = v->is_array() && !v->empty() && v->front().is_number();
      if (flat) {
        into.assign(1, v->get<std::vector<int64_t>>());
      } else {
        into = v->get<std::vector<std::vector<int64_t>>>();
      }
    });
  }
  // A list of [tokens, bias].
  void read_biases(const char* name, std::vector<std::pair<std::vector<int64_t>, float>>& into) const {
    const json* v = find(name);
    if (!v) return;
    convert(name, "a list of [tokens, bias]", [&] {
      // Of equal sequences the last holds.
      std::map<std::vector<int64_t>, float> biases;
      for (const auto& [tokens, bias] : v->get<std::vector<std::pair<std::vector<int64_t>, float>>>())
        biases[tokens] = bias;
      into.assign(biases.begin(), biases.end());
    });
  }
  void read_early_stopping(EarlyStopping& into) const {
    const json* v = find("early_stopping");
    if (!v) return;
    if (v->is_boolean()) {
      into = v->get<bool>() ? EarlyStopping::kTrue : EarlyStopping::kFalse;
    } else if (*v == "never") {
      into = EarlyStopping::kNever;
    } else {
      invalid(fmt::format("early_stopping: expected true, false or \"never\", got {}", text_of(*v)));
    }
  }
  void read_alignment_heads(std::vector<std::pair<int64_t, int64_t>>& into) const {
    const json* v = find("alignment_heads");
    if (v)
      convert("alignment_heads", "a list of [layer, head]",
              [&] { into = v->get<std::vector<std::pair<int64_t, int64_t>>>(); });
  }
  bool knows(const std::string& name) const { return names_.contains(name); }
  void read_forced_decoder_ids(std::vector<std::pair<int64_t, int64_t>>& into) const {
    const json* v = find("forced_decoder_ids");
    if (!v) return;
    convert("forced_decoder_ids", "a list of [position, token]", [&] {
      into.clear();
      for (const json& pair : *v)
        if (!pair.at(1).is_null()) into.emplace_back(pair.at(0).get<int64_t>(), pair.at(1).get<int64_t>());
    });
  }

 private:
  template <class T>
  static T value(const char* name, const json& v) {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      if (v.is_number_float() && v.get<double>() != std::trunc(v.get<double>()))
        invalid(fmt::format("option {}: expected a whole number, found {}", name, text_of(v)));
      if (v.is_number() && !holds<T>(v))
        invalid(fmt::format("option {}: expected {} to {}, found {}", name, std::numeric_limits<T>::min(),
                            std::numeric_limits<T>::max(), text_of(v)));
    }
    return v.get<T>();
  }
  // Whether the number lies in T's range.
  template <class T>
  static bool holds(const json& v) {
    if (v.is_number_unsigned()) return std::in_range<T>(v.get<uint64_t>());
    if (v.is_number_integer()) return std::in_range<T>(v.get<int64_t>());
    const double x = v.get<double>(), end = std::ldexp(1.0, std::numeric_limits<T>::digits);
    return x < end && x >= (std::is_signed_v<T> ? -end : 0);
  }
  bool is_null(const char* name) const {
    const auto it = object_.find(name);
    return it != object_.end() && it->is_null();
  }
  const json* find(const char* name) const {
    names_.insert(name);
    const auto it = object_.find(name);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }
  template <class F>
  void convert(const char* name, std::string_view expected, F&& f) const {
    try {
      f();
    } catch (const json::exception&) {
      invalid(fmt::format("option {}: expected {}, found {}", name, expected, text_of(object_.at(name))));
    }
  }
  const json& object_;
  mutable std::set<std::string> names_;  // that were asked for
};

// Other ways of searching, and the values at which they are off. Without them an output would be another one.
const std::map<std::string, json>& other_searches() {
  static const std::map<std::string, json> kSearches = {
      {"num_beam_groups", 1},   {"diversity_penalty", 0},  {"penalty_alpha", 0},
      {"guidance_scale", 1},    {"constraints", nullptr},  {"force_words_ids", nullptr},
      {"dola_layers", nullptr}, {"stop_strings", nullptr}, {"watermarking_config", nullptr},
      {"token_healing", false}};
  return kSearches;
}

// Names that generate() of Hugging Face knows and that change no token.
bool without_effect(const std::string& name) {
  static const std::set<std::string> kNames = {
      "use_cache",          "cache_implementation", "cache_config",         "low_memory",
      "output_scores",      "output_logits",        "output_attentions",    "output_hidden_states",
      "synced_gpus",        "disable_compile",      "compile_config",       "return_dict_in_generate",
      "use_model_defaults", "return_legacy_cache",  "transformers_version", "_from_model_config"};
  return kNames.contains(name);
}

void refuse_other_searches(const json& object) {
  for (const auto& [name, off] : other_searches())
    if (const auto it = object.find(name); it != object.end() && !it->is_null() && *it != off)
      throw Error(Error::Kind::kUnsupported,
                  fmt::format("option {}: expected {}, other ways of searching aren't supported, found {}", name,
                              off.dump(), text_of(*it)));
}

// No token that ends an output: -1, as transformers writes it.
void leave_out_no_end(std::vector<int64_t>& ends) {
  constexpr int64_t kNone = -1;
  for (const int64_t t : ends)
    if (t < kNone)
      invalid(fmt::format("option eos_token_id: expected tokens of the vocabulary, or -1 for none, found {}", t));
  std::erase(ends, kNone);
}

// The options in a model's configuration. Those that it leaves as they are by default are taken from the section of the
// part that writes, if there is one: the rule of transformers' GenerationConfig.from_model_config.
json with_decoder_options(json config) {
  static const json kDefaults = {{"max_length", 20},
                                 {"min_length", 0},
                                 {"do_sample", false},
                                 {"early_stopping", false},
                                 {"num_beams", 1},
                                 {"num_beam_groups", 1},
                                 {"diversity_penalty", 0},
                                 {"num_return_sequences", 1},
                                 {"temperature", 1},
                                 {"top_k", 50},
                                 {"top_p", 1},
                                 {"typical_p", 1},
                                 {"epsilon_cutoff", 0},
                                 {"eta_cutoff", 0},
                                 {"repetition_penalty", 1},
                                 {"encoder_repetition_penalty", 1},
                                 {"length_penalty", 1},
                                 {"no_repeat_ngram_size", 0},
                                 {"encoder_no_repeat_ngram_size", 0},
                                 {"remove_invalid_values", false},
                                 {"renormalize_logits", false}};
  if (!config.is_object()) return config;
  for (const char* part : {"decoder", "generator", "text_config"}) {
    const auto section = config.find(part);
    if (section == config.end() || !section->is_object()) continue;
    const json options = *section;
    for (const auto& [name, value] : options.items()) {
      const json own = config.value(name, json());
      if (own.is_null() || own == kDefaults.value(name, json())) config[name] = value;
    }
    break;
  }
  return config;
}

// `strict`: every name must be known.
void read_options(const json& object, GenerationOptions& o, bool strict = false) {
  if (!object.is_object()) invalid("options: expected a JSON object");
  refuse_other_searches(object);
  const OptionReader in(object);
  in.read("max_length", o.max_length);
  in.read("max_new_tokens", o.max_new_tokens);
  in.read("max_length_factor", o.max_length_factor);
  in.read("min_length", o.min_length);
  in.read("min_new_tokens", o.min_new_tokens);
  in.read("num_beams", o.num_beams);
  in.read("num_return_sequences", o.num_return_sequences);
  in.read("length_penalty", o.length_penalty);
  in.read_early_stopping(o.early_stopping);
  in.read("do_sample", o.do_sample);
  in.read("temperature", o.temperature);
  in.read("top_k", o.top_k);
  in.read("top_p", o.top_p);
  in.read("min_p", o.min_p);
  in.read("typical_p", o.typical_p);
  in.read("epsilon_cutoff", o.epsilon_cutoff);
  in.read("eta_cutoff", o.eta_cutoff);
  in.read("seed", o.seed);
  in.read("repetition_penalty", o.repetition_penalty);
  in.read("no_repeat_ngram_size", o.no_repeat_ngram_size);
  in.read("bad_words_ids", o.bad_words_ids);
  in.read_biases("sequence_bias", o.sequence_bias);
  in.read("encoder_repetition_penalty", o.encoder_repetition_penalty);
  in.read("encoder_no_repeat_ngram_size", o.encoder_no_repeat_ngram_size);
  in.read("exponential_decay_length_penalty", o.exponential_decay_length_penalty);
  in.read("remove_invalid_values", o.remove_invalid_values);
  in.read("renormalize_logits", o.renormalize_logits);
  in.read("suppress_tokens", o.suppress_tokens);
  in.read("begin_suppress_tokens", o.begin_suppress_tokens);
  in.read("forced_bos_token_id", o.forced_bos_token_id);
  in.read_tokens("forced_eos_token_id", o.forced_eos_token_id);
  in.read("decoder_start_token_id", o.decoder_start_token_id);
  in.read("bos_token_id", o.bos_token_id);
  in.read("pad_token_id", o.pad_token_id);
  in.read_tokens("eos_token_id", o.eos_token_id);
  leave_out_no_end(o.eos_token_id);
  in.read_token_lists("decoder_input_ids", o.decoder_input_ids);
  in.read_forced_decoder_ids(o.forced_decoder_ids);
  in.read("return_timestamps", o.return_timestamps);
  in.read("no_timestamps_token_id", o.no_timestamps_token_id);
  in.read("max_initial_timestamp_index", o.max_initial_timestamp_index);
  in.read("output_alignments", o.output_alignments);
  in.read_alignment_heads(o.alignment_heads);
  for (const auto& [name, value] : object.items())
    if (strict && !in.knows(name) && !other_searches().contains(name) && !without_effect(name))
      invalid(fmt::format("option {}: there is none of that name", name));
}

}  // namespace

void read_generation_options(std::string_view text, GenerationOptions& options) {
  json parsed;
  try {
    parsed = parse_json(text);
  } catch (const json::exception& e) {
    invalid(fmt::format("options: not valid JSON: {}", json_fault(e)));
  }
  read_options(parsed, options, true);
}

void set_generation_option(const std::string& name, const std::string& value, GenerationOptions& options) {
  json parsed;
  try {
    parsed = parse_json(value);
  } catch (const json::exception&) {
    parsed = value;
  }
  read_options(json{{name, parsed}}, options, true);
}

GenerationOptions read_generation_config(const std::filesystem::path& folder) {
  GenerationOptions options;
  const auto read = [&](const std::filesystem::path& file, const json& object) {
    within([&] { return file.string(); }, [&] { read_options(object, options); });
  };
  const auto config = read_json(folder / "config.json");
  const auto generation = read_json(folder / "generation_config.json");
  if (generation) {
    read(folder / "generation_config.json", *generation);
  } else if (config) {
    read(folder / "config.json", with_decoder_options(*config));
  }
  // Whisper's prompts say all that the decoder starts with.
  options.prompt_as_is = config && config->is_object() && config->value("model_type", json()) == "whisper";
  return options;
}

void check(const GenerationOptions& o) {
  const auto require = [](bool holds, std::string_view message) {
    if (!holds) invalid(std::string(message));
  };
  for (const auto& [number, name] :
       {std::pair(o.max_length_factor.value_or(1), "max_length_factor"),
        std::pair(double{o.temperature}, "temperature"), std::pair(double{o.length_penalty}, "length_penalty"),
        std::pair(double{o.repetition_penalty}, "repetition_penalty"),
        std::pair(double{o.encoder_repetition_penalty}, "encoder_repetition_penalty"),
        std::pair(o.exponential_decay_length_penalty ? double{o.exponential_decay_length_penalty->second} : 1,
                  "the factor of exponential_decay_length_penalty")})
    require(std::isfinite(number), fmt::format("{} must be finite", name));
  require(o.num_beams >= 1, "num_beams must be at least 1");
  require(o.num_return_sequences >= 1, "num_return_sequences must be at least 1");
  require(std::max(o.num_beams, o.num_return_sequences) <= kMostSequences,
          fmt::format("num_beams and num_return_sequences must be at most {}", kMostSequences));
  require(o.num_return_sequences <= o.num_beams || (o.do_sample && o.num_beams == 1),
          fmt::format("num_return_sequences ({}) can't exceed num_beams ({}) unless sampling", o.num_return_sequences,
                      o.num_beams));
  for (const auto& [token, name] :
       {std::pair(o.decoder_start_token_id, "decoder_start_token_id"), std::pair(o.bos_token_id, "bos_token_id"),
        std::pair(o.forced_bos_token_id, "forced_bos_token_id")})
    require(!token || *token >= 0, fmt::format("{} must not be negative", name));
  require(!o.max_length || *o.max_length >= 1, "max_length must be at least 1");
  require(!o.max_new_tokens || *o.max_new_tokens >= 1, "max_new_tokens must be at least 1");
  require(!o.max_length_factor || *o.max_length_factor > 0, "max_length_factor must be above 0");
  require(o.temperature > 0, "temperature must be above 0");
  require(o.top_k >= 0, "top_k must not be negative");
  require(o.top_p >= 0 && o.top_p <= 1, "top_p must lie in [0, 1]");
  require(!o.min_p || (*o.min_p >= 0 && *o.min_p <= 1), "min_p must lie in [0, 1]");
  require(o.typical_p > 0, "typical_p must be above 0");
  require(o.epsilon_cutoff >= 0 && o.epsilon_cutoff < 1, "epsilon_cutoff must lie in [0, 1)");
  require(o.eta_cutoff >= 0 && o.eta_cutoff < 1, "eta_cutoff must lie in [0, 1)");
  require(o.repetition_penalty > 0, "repetition_penalty must be above 0");
  require(!o.return_timestamps || (o.no_timestamps_token_id && *o.no_timestamps_token_id >= 0),
          "return_timestamps needs no_timestamps_token_id");
  require(o.encoder_repetition_penalty > 0, "encoder_repetition_penalty must be above 0");
  require(o.encoder_no_repeat_ngram_size >= 0, "encoder_no_repeat_ngram_size must not be negative");
  require(std::none_of(o.sequence_bias.begin(), o.sequence_bias.end(), [](const auto& b) { return b.first.empty(); }),
          "sequence_bias must not hold empty lists");
  require(std::none_of(o.sequence_bias.begin(), o.sequence_bias.end(),
                       [](const auto& b) { return !(b.second < std::numeric_limits<float>::infinity()); }),
          "sequence_bias must hold numbers below infinity");
  require(o.no_repeat_ngram_size >= 0, "no_repeat_ngram_size must not be negative");
  require(std::none_of(o.eos_token_id.begin(), o.eos_token_id.end(), [](int64_t t) { return t < 0; }),
          "eos_token_id must not be negative");
  require(std::none_of(o.bad_words_ids.begin(), o.bad_words_ids.end(), [](const auto& w) { return w.empty(); }),
          "bad_words_ids must not hold empty lists");
}

LengthLimits length_limits(const GenerationOptions& o, int64_t prompt_length) {
  constexpr int64_t kDefaultNewTokens = 20;
  const auto behind = [&](int64_t tokens) { return prompt_length + std::min(tokens, kLongestOutput); };
  LengthLimits limits{behind(kDefaultNewTokens), o.min_length};
  if (o.max_new_tokens) {
    limits.max_length = behind(*o.max_new_tokens);
  } else if (o.max_length) {
    limits.max_length = *o.max_length;
  }
  if (o.min_new_tokens) limits.min_length = behind(*o.min_new_tokens);
  return limits;
}

}  // namespace attune
