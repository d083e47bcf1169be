// What the integers that look up a table of positions mean.
#pragma once

#include <optional>

#include "ops/infer/infer.h"

namespace attune {

// Row of position t along the last axis: offset + start + t; with tokens (batch, T or more), whose last T columns
// count, offset + token (start + sum of the tokens up to it).
struct TokenPositions {
  int64_t offset = 0;
  Dim start;                // without the constant that is in `offset` if there are no tokens
  Value* tokens = nullptr;  // integers or bools
  Dim asked;                // of a Slice: how many rows it asks for; it gives fewer only where its operand ends
};

// Nothing if `rows` (integers; with tokens of rank 2, the batch first) are no such positions.
std::optional<TokenPositions> token_positions(const Value& rows, const Inference& inference);
// What a Slice along the axis `axis`, one by one from a known place on, takes of the positions 0, 1 ...
std::optional<TokenPositions> sliced_positions(const Node& slice, int64_t axis, const Inference& inference);

}  // namespace attune
