// Inputs of an encoder that takes token ids, from rows of ids, and back.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/session.h"

namespace attune {

// input_ids and attention_mask, int64 (rows, longest row): each row padded on the right with `pad`.
TensorMap padded_inputs(const std::vector<std::vector<int64_t>>& rows, int64_t pad);
// The rows of input_ids where attention_mask, if there is one, isn't 0. None if the inputs have no matrix of ids.
std::vector<std::vector<int64_t>> source_tokens(const TensorMap& inputs);

}  // namespace attune
