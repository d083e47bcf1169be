// Decoders that choose tokens without storing the scores of all. Internal to the generator.
#pragma once

#include <optional>

#include "graph/graph.h"

namespace attune {

// What was added to a decoder: its last two inputs, `request` and `offsets` of LinearTop (see ops/linear_top.cpp),
// which may be left out, and outputs with the best tokens of each row and position and their scores.
struct Selection {
  size_t tokens = 0, scores = 0;  // outputs
  size_t vocabulary = 0;
};

// Where output `logits` of `decoder` is a product with a constant matrix, perhaps plus a constant vector, gives the
// decoder outputs with the best tokens, too; a run computes those that are wanted. Nothing where it isn't.
std::optional<Selection> add_selection(Model& decoder, size_t logits);

}  // namespace attune
