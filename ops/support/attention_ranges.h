// The keys that a block of queries sees. Internal to attention_blocks.
#pragma once

#include "ops/support/attention_blocks.h"

namespace attune::blocked {

// Sets the keys that each query of the block may see, as far as ranges tell, and whether a mask says more. Gives the
// range of all.
KeyRange see_keys(const AttentionProblem& p, Block& block, KeyRange* ranges);

}  // namespace attune::blocked
