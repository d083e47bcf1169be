// Caches for decoders that were exported without.
#pragma once

#include <string>

#include "graph/graph.h"

namespace attune {

// A decoder in two parts, as optimum exports them: the first step, and the steps after it.
struct CachedDecoder {
  Model first;  // the inputs of the source; gives present.LAYER.{decoder,encoder}.{key,value} beside its outputs
  Model next;  // new tokens and past_key_values.LAYER. ... instead of the encoder's states; gives present.LAYER.decoder
  size_t layers = 0;  // of self-attention
};

// `model`: a decoder over whole sequences of tokens, its attentions fused (optimize()). Its self-attention must be
// causal, everything else must treat each token by itself, and positions must be counted from 0: then the keys and
// values of earlier tokens can be kept, and those of the source are computed once. Throws Error(kUnsupported) that
// names the node and says why where the graph doesn't allow it.
CachedDecoder add_cache(const Model& model);

// Whether a model is a decoder that add_cache() is for: takes tokens, attends to itself and to a source, has no past.
bool lacks_cache(const Model& model);

// The largest difference, relative to the largest value, between what `whole` gives for made-up sequences and what
// the parts give token by token. Throws Error(kInternal) where another token would be chosen.
double compare_steps(const Model& whole, const CachedDecoder& parts);

}  // namespace attune
