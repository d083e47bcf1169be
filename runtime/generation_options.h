// How to generate: the names and meanings of Hugging Face's generation_config.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attune {

enum class EarlyStopping { kFalse, kTrue, kNever };

// Beams, and sampled sequences, of a source at most: all of them are computed in one batch.
constexpr int64_t kMostSequences = 4096;
// New tokens at most, whatever larger number was asked for: sums of lengths can't overflow.
constexpr int64_t kLongestOutput = int64_t{1} << 40;

struct GenerationOptions {
  // --- length, in tokens of the output; the prompt (decoder_start_token_id ...) counts in max_length and min_length
  std::optional<int64_t> max_length;      // above the prompt's length; default: 20 new tokens
  std::optional<int64_t> max_new_tokens;  // goes before max_length
  // New tokens are at most this times the tokens of their source, rounded up (Marian's max-length-factor).
  std::optional<double> max_length_factor;
  int64_t min_length = 0;
  std::optional<int64_t> min_new_tokens;  // goes before min_length

  // --- search
  int64_t num_beams = 1;             // 1: greedy, or sampling
  int64_t num_return_sequences = 1;  // at most num_beams, unless sampling
  float length_penalty = 1;          // beam scores are divided by (new tokens)^length_penalty
  // When a sentence of a beam search is done. kTrue: as soon as num_beams hypotheses are finished; kFalse: when the
  // best running beam, at its present length, can't beat the worst of them; kNever: when it can't at any length.
  EarlyStopping early_stopping = EarlyStopping::kFalse;

  // --- sampling
  bool do_sample = false;
  float temperature = 1;       // > 0
  int64_t top_k = 50;          // 0: all
  float top_p = 1;             // 1: all
  std::optional<float> min_p;  // tokens below min_p times the largest probability are dropped
  float typical_p = 1;         // those whose information is nearest to the entropy, up to this probability; 1: all
  // Tokens are dropped whose probability is below epsilon_cutoff; below eta_cutoff, or less for flat distributions
  // (Hewitt et al. 2022). 0: none.
  float epsilon_cutoff = 0, eta_cutoff = 0;
  uint64_t seed = 0;

  // --- tokens
  float repetition_penalty = 1;  // > 0; above 1 discourages tokens that occurred
  int64_t no_repeat_ngram_size = 0;
  std::vector<std::vector<int64_t>> bad_words_ids;
  // Added to the score of the last token of each sequence where the others stand before it. As JSON: [[tokens, bias],
  // ...]; of equal sequences the last holds.
  std::vector<std::pair<std::vector<int64_t>, float>> sequence_bias;
  // Of the source's tokens, padding left out: above 1 encourages them; n-grams of the source don't come in the output.
  float encoder_repetition_penalty = 1;  // > 0
  int64_t encoder_no_repeat_ngram_size = 0;
  // New tokens after which the end of sequence becomes likelier by a factor with each token.
  std::optional<std::pair<int64_t, float>> exponential_decay_length_penalty;
  bool remove_invalid_values = false;  // scores that are no numbers become 0, infinite ones the largest there are
  bool renormalize_logits = false;     // scores become log-probabilities again after all rules
  std::vector<int64_t> suppress_tokens, begin_suppress_tokens;
  std::optional<int64_t> forced_bos_token_id;
  std::vector<int64_t> forced_eos_token_id;

  std::optional<int64_t> decoder_start_token_id;
  std::optional<int64_t> bos_token_id, pad_token_id;
  std::vector<int64_t> eos_token_id;
  // Prompts: one for all sources, or one for each, all equally long. decoder_start_token_id is put in front of a
  // prompt that doesn't start with it, unless prompt_as_is.
  std::vector<std::vector<int64_t>> decoder_input_ids;
  bool prompt_as_is = false;
  // Tokens at positions after the start (older Whisper configurations); they continue the prompt.
  std::vector<std::pair<int64_t, int64_t>> forced_decoder_ids;

  // --- times of speech (Whisper): the tokens above no_timestamps_token_id are steps of 20 ms
  bool return_timestamps = false;  // text between times; needs no_timestamps_token_id
  std::optional<int64_t> no_timestamps_token_id;
  std::optional<int64_t> max_initial_timestamp_index;

  // --- output
  bool output_alignments = false;
  bool output_log_probabilities = false;
  // (layer, head) of cross-attention that alignments are made from (Whisper's configuration has them); empty: all.
  std::vector<std::pair<int64_t, int64_t>> alignment_heads;
};

// Sets what `json`, an object, gives. Throws Error(kInvalidArgument) that names the option that isn't known, or has a
// wrong type or value, Error(kUnsupported) for one of Hugging Face's ways of searching that attune
// doesn't have.
void read_generation_options(std::string_view json, GenerationOptions& options);
// Sets one option from text: a JSON value, or else a string. Throws as above.
void set_generation_option(const std::string& name, const std::string& value, GenerationOptions& options);
// Reads generation_config.json of a folder; older folders have its settings in config.json. Neither: the defaults.
GenerationOptions read_generation_config(const std::filesystem::path& folder);
// Throws Error(kInvalidArgument) where options contradict each other.
void check(const GenerationOptions& options);

// Limits in tokens of the whole sequence, prompt included.
struct LengthLimits {
  int64_t max_length, min_length;
};
LengthLimits length_limits(const GenerationOptions& options, int64_t prompt_length);

}  // namespace attune
