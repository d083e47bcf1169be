// Query heads that share a key head. Exports give them as an axis that keys are broadcast along, or as more rows of
// queries of their key head: (B, G, r T, E), or (B, r T, E) with one key head.
#pragma once

#include <optional>
#include <vector>

#include "passes/pattern/rule.h"

namespace attune {

// What a Reshape that keeps the first `kept` axes reshapes; else `x`.
Value* before_reshape(Value* x, int kept);

// How rows of queries are r heads of T positions each.
struct RowGroups {
  std::optional<int64_t> key_heads;  // G; none: rows have no axis of heads
  int64_t heads = 1;                 // r, of a key head
  bool time_first = false;           // a head's rows lie apart: (T, r)
};

// From the shapes of rows, (B, G, r T, ...) or (B, r T, ...), and of what has the two axes apart; nothing if they are
// no such shapes. With `masks`, whose shapes are broadcast to the latter, heads are the axis along which those repeat.
std::optional<RowGroups> row_groups(const Dims& rows, const Dims& apart, const std::vector<const Value*>& masks = {},
                                    bool prefer_time_first = false);

// Rows as queries of an Attention: (B, G r, T, E), or (B, T, r E) for rows without an axis of heads.
Value* heads_of_rows(pattern::Builder& b, Value* rows, const RowGroups& groups);
// Its context as rows.
Value* rows_of_heads(pattern::Builder& b, Value* context, const RowGroups& groups, int64_t width);
// A mask over (B, G, r, T, S), in the order of the rows, as one over (B, G r, T, S); null if heads differ in it.
Value* mask_of_heads(pattern::Builder& b, Value* mask, const RowGroups& groups);
// The mask over (B, 1, T, S), or (T, S), that a mask over rows repeats for each head; null if it is none.
Value* mask_of_rows(pattern::Builder& b, Value* mask, const RowGroups& groups);

}  // namespace attune
