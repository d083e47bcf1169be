// Attention in several streams at once, as ProphetNet's n-grams: (B, N, H, T, E). The streams are a part of the batch.
#pragma once

#include "passes/pattern/rule.h"

namespace attune {

// x (B, N, ...) as (B N, ...). Where it stacks N values, what was done to each of them is done to the stack of what it
// was done to, as far as only the stack uses them: (B, N, T, E) of x_i W is the stack of the x_i, times W.
Value* fold_streams(pattern::Builder& b, Value* x);

// x in a shape that is computed, in which a 0 is no size to be copied.
Value* reshape_to_sizes(pattern::Builder& b, Value* x, Value* sizes);

}  // namespace attune
