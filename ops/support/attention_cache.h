// Key/value caches that grow in place.
//
// A cache (B, G, T, E) is a view into memory for more rows: strides (G*R*E, R*E, E, 1) with R >= T rows a head.
#pragma once

#include "graph/tensor.h"
#include "ops/support/attention_problem.h"

namespace attune {

// The cache with the rows of `added` after those of `past`: in the memory of `past` if nobody else holds it and it has
// room, else in new memory with room for as many rows again (at least 64). With an index row b of `added` goes to row
// index.at(b, T) of the cache, which grows by rows of the batch where it has no such row yet.
Tensor grow_cache(Tensor past, const HeadsView& added, BufferPool* pool, const RowIndex& index = {});

// The rows of `added` as a (B, G, T, E) tensor that shares the memory of `source`, the tensor that they lie in.
Tensor view_as_cache(const HeadsView& added, const Tensor& source);

}  // namespace attune
