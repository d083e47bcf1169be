// Alignments out of decoders that don't give them. Internal to the generator.
#pragma once

#include <cstddef>

#include "graph/graph.h"

namespace attune {

// Makes the weights (the mean over heads) of each ai.attune Attention whose keys don't depend on the tokens, that is
// on integer inputs, an output of `decoder`. Nodes within bodies are left alone. Gives the number of new outputs.
size_t give_cross_attention_weights(Graph& decoder);

}  // namespace attune
