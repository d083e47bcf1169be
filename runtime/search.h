// Greedy search, sampling and beam search over any model that gives scores of the next token.
//
// The semantics are those of Hugging Face transformers' generate() (version 4.57): see GenerationOptions.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "runtime/generation_options.h"

namespace attune {

// Rows x vocabulary.
struct Scores {
  std::span<float> values;
  size_t vocabulary = 0;
  std::span<float> row(size_t i) const { return values.subspan(i * vocabulary, vocabulary); }
};

// A decoder in the middle of a batch of sources.
class StepModel {
 public:
  virtual ~StepModel() = default;
  // Logits of the token that follows each of `sequences` (all of one length: a prompt at first, then one token more
  // with each call). Row i continues row parents[i] of the call before; at the first call `parents` is empty and row i
  // belongs to source i. The logits may be changed, and are good until the next call.
  virtual Scores step(const std::vector<std::vector<int64_t>>& sequences, std::span<const int32_t> parents) = 0;
};

struct Hypothesis {
  std::vector<int64_t> tokens;  // prompt, new tokens, and the end of sequence if it came
  std::optional<float> score;   // beam search: log-probability / (new tokens)^length_penalty; else none
  std::vector<int32_t> rows;    // per new token: the row of the step that gave it
  // Per new token, if asked for: its log-probability after all rules, at temperature 1.
  std::vector<float> log_probabilities;
};

// Called with each token as soon as it is settled: source, index of the sequence, token. In beam search those of the
// best sequence are settled when all hypotheses that may still win begin with them; those of the others at the end.
using TokenCallback = std::function<void(size_t source, size_t sequence, int64_t token)>;

// `prompts`: one for each source, all of one length. `limits`: new tokens at most, for each source, beside those of
// `options`; empty: none. `sources`: the tokens of each source, if it has tokens. Gives num_return_sequences hypotheses
// for each source, best first. What a source gives does not depend on the others.
std::vector<std::vector<Hypothesis>> search(StepModel& model, const std::vector<std::vector<int64_t>>& prompts,
                                            const GenerationOptions& options, const TokenCallback& callback = {},
                                            const std::vector<int64_t>& limits = {},
                                            const std::vector<std::vector<int64_t>>& sources = {});

}  // namespace attune
