#include "runtime/token_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/error.h"
#include "ops/support/row_math.h"
#include "runtime/timestamp_rule.h"

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

// Scores of the tokens that occur in `tokens` are divided by `penalty`, negative ones multiplied.
void penalize(std::span<const int64_t> tokens, float penalty, std::span<float> scores) {
  std::vector<int64_t> seen(tokens.begin(), tokens.end());
  std::sort(seen.begin(), seen.end());
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  for (const int64_t t : seen) {
    float& s = at(scores, t);
    s = s < 0 ? s * penalty : s / penalty;
  }
}

// What would complete an n-gram of `text` behind `tokens`.
void forbid_ngrams(std::span<const int64_t> text, std::span<const int64_t> tokens, size_t n, std::span<float> scores) {
  if (tokens.size() + 1 < n) return;
  const auto last = tokens.last(n - 1);
  for (size_t i = 0; i + n <= text.size(); ++i)
    if (std::equal(last.begin(), last.end(), text.begin() + static_cast<std::ptrdiff_t>(i)))
      at(scores, text[i + n - 1]) = kMinusInfinity;
}

void remove_invalid(std::span<float> scores) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  for (float& s : scores) s = std::isnan(s) ? 0.0F : std::clamp(s, -kLargest, kLargest);
}

}  // namespace

TokenRules::TokenRules(const GenerationOptions& options, int64_t prompt_length)
    : options_(options),
      prompt_length_(static_cast<size_t>(prompt_length)),
      limits_(length_limits(options, prompt_length)),
      begin_(prompt_length) {
  if (prompt_length == 1 && options.forced_bos_token_id) ++begin_;
}

std::optional<std::vector<int64_t>> TokenRules::excluded(int64_t length, size_t vocabulary) const {
  const GenerationOptions& o = options_;
  const auto outside = [&](int64_t t) { return t < 0 || static_cast<size_t>(t) >= vocabulary; };
  const bool forced =
      (o.forced_bos_token_id && length == 1) || (!o.forced_eos_token_id.empty() && length == limits_.max_length - 1);
  const bool by_tokens = o.repetition_penalty != 1 || o.no_repeat_ngram_size > 0 || !o.sequence_bias.empty() ||
                         o.encoder_repetition_penalty != 1 || o.encoder_no_repeat_ngram_size > 0;
  const bool by_scores = o.exponential_decay_length_penalty || o.remove_invalid_values || o.renormalize_logits;
  if (forced || by_tokens || by_scores || o.return_timestamps) return std::nullopt;
  std::vector<int64_t> out = o.suppress_tokens;
  if (length == begin_) out.insert(out.end(), o.begin_suppress_tokens.begin(), o.begin_suppress_tokens.end());
  if (length < limits_.min_length) out.insert(out.end(), o.eos_token_id.begin(), o.eos_token_id.end());
  for (const auto& word : o.bad_words_ids) {
    if (word.size() != 1 || outside(word[0])) return std::nullopt;
    if (std::find(o.eos_token_id.begin(), o.eos_token_id.end(), word[0]) == o.eos_token_id.end())
      out.push_back(word[0]);
  }
  std::erase_if(out, outside);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

bool TokenRules::empty() const {
  const GenerationOptions& o = options_;
  return o.repetition_penalty == 1 && o.no_repeat_ngram_size == 0 && o.bad_words_ids.empty() &&
         (limits_.min_length <= 0 || o.eos_token_id.empty()) && !o.forced_bos_token_id &&
         o.forced_eos_token_id.empty() && o.suppress_tokens.empty() && o.begin_suppress_tokens.empty() &&
         !o.return_timestamps && o.sequence_bias.empty() && o.encoder_repetition_penalty == 1 &&
         o.encoder_no_repeat_ngram_size == 0 && !o.exponential_decay_length_penalty && !o.remove_invalid_values &&
         !o.renormalize_logits;
}

void TokenRules::apply(std::span<const int64_t> tokens, std::span<float> scores,
                       std::span<const int64_t> source) const {
  const auto length = static_cast<int64_t>(tokens.size());
  add_biases(tokens, scores);
  if (options_.encoder_repetition_penalty != 1) penalize(source, 1 / options_.encoder_repetition_penalty, scores);
  if (options_.repetition_penalty != 1) penalize(tokens, options_.repetition_penalty, scores);
  if (options_.no_repeat_ngram_size > 0)
    forbid_ngrams(tokens, tokens, static_cast<size_t>(options_.no_repeat_ngram_size), scores);
  if (options_.encoder_no_repeat_ngram_size > 0)
    forbid_ngrams(source, tokens, static_cast<size_t>(options_.encoder_no_repeat_ngram_size), scores);
  if (!options_.bad_words_ids.empty()) forbid_bad_words(tokens, scores);
  if (length < limits_.min_length) forbid(options_.eos_token_id, scores);
  if (options_.forced_bos_token_id && length == 1) allow_only({&*options_.forced_bos_token_id, 1}, scores);
  if (!options_.forced_eos_token_id.empty() && length == limits_.max_length - 1)
    allow_only(options_.forced_eos_token_id, scores);
  if (options_.remove_invalid_values) remove_invalid(scores);
  if (options_.exponential_decay_length_penalty) raise_end(length - static_cast<int64_t>(prompt_length_), scores);
  forbid(options_.suppress_tokens, scores);
  if (length == begin_) forbid(options_.begin_suppress_tokens, scores);
  if (options_.return_timestamps) apply_timestamp_rule(options_, tokens.subspan(prompt_length_), scores);
}

void TokenRules::add_biases(std::span<const int64_t> tokens, std::span<float> scores) const {
  for (const auto& [sequence, bias] : options_.sequence_bias) {
    if (sequence.size() > tokens.size() && sequence.size() > 1) continue;
    const auto before = std::span(sequence).first(sequence.size() - 1);
    if (std::equal(before.begin(), before.end(), tokens.last(before.size()).begin()))
      at(scores, sequence.back()) += bias;
  }
}

void TokenRules::raise_end(int64_t new_tokens, std::span<float> scores) const {
  const auto& [start, factor] = *options_.exponential_decay_length_penalty;
  if (new_tokens <= start) return;
  const auto growth =
      static_cast<float>(std::pow(static_cast<double>(factor), static_cast<double>(new_tokens - start)) - 1);
  for (const int64_t t : options_.eos_token_id)
    if (t >= 0 && static_cast<size_t>(t) < scores.size()) {
      float& s = scores[static_cast<size_t>(t)];
      if (std::isfinite(s)) s += std::abs(s) * growth;
    }
}

void TokenRules::finish(std::span<float> scores) const {
  if (options_.renormalize_logits) log_softmax_row(scores.data(), scores.data(), static_cast<int64_t>(scores.size()));
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
