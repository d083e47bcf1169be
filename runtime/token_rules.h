// Changes of the next token's scores that options ask for, in the order in which Hugging Face applies them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/generation_options.h"

namespace attune {

class TokenRules {
 public:
  // `prompt_length`: tokens that a sequence has before the first is generated.
  TokenRules(const GenerationOptions& options, int64_t prompt_length);

  // Changes `scores` (logits, or log-probabilities in beam search) of the token that follows `tokens`; `source`: the
  // source's tokens, if it has any. Throws Error(kInvalidArgument) for tokens of options outside the vocabulary.
  void apply(std::span<const int64_t> tokens, std::span<float> scores, std::span<const int64_t> source = {}) const;
  // What follows all rules, and the warping of sampling.
  void finish(std::span<float> scores) const;
  // The tokens that apply() makes impossible behind any sequence of `length`, ascending, if it does nothing else there.
  // Nothing where it depends on the tokens, or names one outside the vocabulary.
  std::optional<std::vector<int64_t>> excluded(int64_t length, size_t vocabulary) const;
  // True if apply() never changes anything.
  bool empty() const;

 private:
  void add_biases(std::span<const int64_t> tokens, std::span<float> scores) const;
  void raise_end(int64_t new_tokens, std::span<float> scores) const;
  void forbid_bad_words(std::span<const int64_t> tokens, std::span<float> scores) const;

  const GenerationOptions& options_;
  size_t prompt_length_;
  LengthLimits limits_;
  int64_t begin_;  // length of a sequence at which begin_suppress_tokens applies
};

}  // namespace attune
