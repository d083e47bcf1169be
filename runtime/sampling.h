// Drawing tokens from scores.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/generation_options.h"

namespace attune {

// Applies temperature, top_k, top_p, min_p, typical_p, epsilon_cutoff and eta_cutoff, in this order; tokens that fall
// away become -inf. At least `keep` tokens stay.
void warp(const GenerationOptions& options, size_t keep, std::span<float> scores);

// A number in [0, 1) that depends on its arguments alone, so that a draw is the same in any batch.
double uniform(uint64_t seed, uint64_t source, uint64_t sequence, uint64_t step);

// The first token whose cumulative probability (softmax of `scores`, in double) exceeds u.
int64_t draw(std::span<const float> scores, double u);

// Throws Error(kInvalidModel) if the score of the best token is NaN or infinite: the model's scores are no numbers.
void check_best_score(float score);

}  // namespace attune
