// Decoders that choose tokens without storing the scores of all. Internal to the generator.
#pragma once

#include <optional>

#include "graph/graph.h"

namespace attune {

// What was added to a decoder: its last input takes tokens that must not be chosen (int64, ascending; it may be left
// out), and output `output` gives the best token of each row and position.
struct Selection {
  size_t output = 0;
  size_t vocabulary = 0;
};

// Where output `logits` of `decoder` is a product with a constant matrix, perhaps plus a constant vector, gives the
// decoder an output with the best tokens, too; a run computes the one that is wanted. Nothing where it isn't.
std::optional<Selection> add_selection(Model& decoder, size_t logits);

}  // namespace attune
