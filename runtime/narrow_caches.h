// Keys and values of attentions kept in 16 bits. Internal to the runtime.
#pragma once

#include "graph/graph.h"

namespace attune {

// Where an ai.attune Attention of float32 widens keys and values of 16 bits by Casts and narrows those for the next
// step, in `graph` and its bodies: takes and gives them as they are. The kernel widens what it reads in registers, and
// a cache can grow where it lies.
void narrow_caches(Graph& graph);

// Keys and values that were computed in front of `node` (see split_by_fixed_inputs) become `type`; undefined: they
// stay.
void narrow_memory(Graph& graph, Node& node, DataType type);

}  // namespace attune
