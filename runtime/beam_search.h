// Beam search. Internal to search.
#pragma once

#include <vector>

#include "runtime/search.h"

namespace attune {

std::vector<std::vector<Hypothesis>> beam_search(StepModel& model, const std::vector<std::vector<int64_t>>& prompts,
                                                 const GenerationOptions& options, const TokenCallback& callback,
                                                 const std::vector<int64_t>& limits,
                                                 const std::vector<std::vector<int64_t>>& sources);

}  // namespace attune
