// Attention one query at a time: every score, alignment and output. Extra memory is a few rows of Tk numbers a thread.
#pragma once

#include "ops/support/attention_problem.h"

namespace attune {

// Computes context, weights and next_position of `problem`. Scratch memory comes from `pool`. `only`, if
// given, marks the rows to compute (B * H * Tq bytes; for a mean over heads, alike for all heads of a row).
void attend_rowwise(const AttentionProblem& problem, BufferPool* pool, const uint8_t* only = nullptr);

}  // namespace attune
