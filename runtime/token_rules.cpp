#include "runtime/token_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "graph/error.h"

namespace attune {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

float& at(std::span<float> scores, int64_t token) {
  if (token < 0 || static_cast<size_t>(token) >= scores.size())
    throw Error(Error::Kind::kInvalidArgument,
                fmt::format("token {} of an option lies outside the vocabulary of {}", token, scores.size()));
  return scores[static_cast<size_t>(token)];
}

// Tokens outside the vocabulary can't occur anyway.
void forbid(std::span<const int64_t> tokens, std::span<float> scores) {
  for (const int64_t t : tokens)
    if (t >= 0 && static_cast<size_t>(t) < scores.size()) scores[static_cast<size_t>(t)] = kMinusInfinity;
}

void allow_only(std::span<const int64_t> tokens, std::span<float> scores) {
  std::fill(scores.begin(), scores.end(), kMinusInfinity);
  for (const int64_t t : tokens) at(scores, t) = 0;
}

}  // namespace

TokenRules::TokenRules(const GenerationOptions& options, int64_t prompt_length)
    : options_(options), limits_(length_limits(options, prompt_length)), begin_(prompt_length) {
  if (prompt_length == 1 && options.forced_bos_token_id) ++begin_;
}

bool TokenRules::empty() const {
  const GenerationOptions& o = options_;
  return o.repetition_penalty == 1 && o.no_repeat_ngram_size == 0 && o.bad_words_ids.empty() &&
         (limits_.min_length <= 0 || o.eos_token_id.empty()) && !o.forced_bos_token_id &&
         o.forced_eos_token_id.empty() && o.suppress_tokens.empty() && o.begin_suppress_tokens.empty();
}

void TokenRules::apply(std::span<const int64_t> tokens, std::span<float> scores) const {
  const auto length = static_cast<int64_t>(tokens.size());
  if (options_.repetition_penalty != 1) penalize_repetition(tokens, scores);
  if (options_.no_repeat_ngram_size > 0) forbid_repeated_ngrams(tokens, scores);
  if (!options_.bad_words_ids.empty()) forbid_bad_words(tokens, scores);
  if (length < limits_.min_length) forbid(options_.eos_token_id, scores);
  if (options_.forced_bos_token_id && length == 1) allow_only({&*options_.forced_bos_token_id, 1}, scores);
  if (!options_.forced_eos_token_id.empty() && length == limits_.max_length - 1)
    allow_only(options_.forced_eos_token_id, scores);
  forbid(options_.suppress_tokens, scores);
  if (length == begin_) forbid(options_.begin_suppress_tokens, scores);
}

void TokenRules::penalize_repetition(std::span<const int64_t> tokens, std::span<float> scores) const {
  std::vector<int64_t> seen(tokens.begin(), tokens.end());
  std::sort(seen.begin(), seen.end());
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  for (const int64_t t : seen) {
    float& s = at(scores, t);
    s = s < 0 ? s * options_.repetition_penalty : s / options_.repetition_penalty;
  }
}

void TokenRules::forbid_repeated_ngrams(std::span<const int64_t> tokens, std::span<float> scores) const {
  const auto n = static_cast<size_t>(options_.no_repeat_ngram_size);
  if (tokens.size() + 1 < n) return;
  const auto last = tokens.last(n - 1);
  for (size_t i = 0; i + n <= tokens.size(); ++i)
    if (std::equal(last.begin(), last.end(), tokens.begin() + static_cast<std::ptrdiff_t>(i)))
      at(scores, tokens[i + n - 1]) = kMinusInfinity;
}

void TokenRules::forbid_bad_words(std::span<const int64_t> tokens, std::span<float> scores) const {
  const auto& eos = options_.eos_token_id;
  for (const auto& word : options_.bad_words_ids) {
    // The end of sequence is never a bad word, and words longer than the sequence don't apply yet.
    if (word.size() == 1 && std::find(eos.begin(), eos.end(), word[0]) != eos.end()) continue;
    if (word.size() > tokens.size() && word.size() > 1) continue;
    const auto before = std::span(word).first(word.size() - 1);
    if (std::equal(before.begin(), before.end(), tokens.last(before.size()).begin()))
      at(scores, word.back()) = kMinusInfinity;
  }
}

}  // namespace attune
