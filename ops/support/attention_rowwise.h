// Attention one query at a time: every score, alignment and output. Extra memory is a few rows of Tk numbers a thread.
#pragma once

#include "ops/support/attention_problem.h"
#include "ops/support/philox.h"
#include "ops/kernel.h"

namespace attune {

// Computes context, weights and next_position of `problem`. Scratch memory comes from `call`.
void attend_rowwise(const AttentionProblem& problem, KernelCall& call);

}  // namespace attune
