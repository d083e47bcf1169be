// Attention of many queries by blocks, with an online softmax (Milakov and Gimelshein, "Online normalizer calculation
// for softmax", 2018; Dao et al., "FlashAttention", 2022): no (Tq, Tk) matrix exists. Extra memory is that of the keys
// and values of one head, and of one block, for each thread (of all heads, if these are fewer).
#pragma once

#include "ops/support/attention_problem.h"

namespace attune {

// True if attend_blocked() serves: soft alignment, a score that is a product, no doubles, no mean over heads of 16-bit
// weights; and if it pays: enough queries.
bool blocks_serve(const AttentionProblem& problem);

// What products are to be of where their operands may be rounded: words, if neither weights nor scores are wanted, rows
// aren't too wide, and the processor adds products of words faster.
AttentionNumbers rounded_numbers(const AttentionProblem& problem);

// Computes the context, and the weights or scores, of `problem` but for rows that it marks in `left_over` (B * H * Tq
// bytes, zeroed): those that see nothing, and those whose values, or, if weights are wanted, scores aren't all finite.
// Of a mean over heads, rows are left over with all heads.
void attend_blocked(const AttentionProblem& problem, uint8_t* left_over, BufferPool* pool);

}  // namespace attune
