// Whisper's timestamps: which tokens may follow. Internal to the rules of tokens.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/generation_options.h"

namespace attune {

// The ids above no_timestamps_token_id are times. Changes `scores` (logits or log-probabilities) of the token that
// follows `generated`, the tokens behind the prompt, as transformers' WhisperTimeStampLogitsProcessor does: times come
// in pairs and don't decrease, the first token is a time, and a time is taken where times together are more probable
// than any one token of text.
void apply_timestamp_rule(const GenerationOptions& options, std::span<const int64_t> generated,
                          std::span<float> scores);

}  // namespace attune
