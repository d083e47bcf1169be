// Alignment weights as outputs of a model.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/attention_taps.h"

namespace attune {

// "all"; "configured" (the configuration's alignment_heads); or layers and heads from 0: "2" (all heads of a layer, -1:
// the last), "0.3" (head 3 of layer 0).
struct WeightsRequest {
  bool all = false, configured = false;
  HeadSelection heads;
};
// Throws Error(kInvalidArgument) that names the part that says nothing.
WeightsRequest weights_request(const std::vector<std::string>& parts);

// Adds an output `cross_attention.LAYER.weights` (batch, heads, queries, keys) to a model whose attentions are fused,
// for each selected layer of cross-attention; its heads are the selected ones, in their order. The model's metadata
// "attune.alignment_heads" lists them as JSON: [[layer, head], ...]. Gives the names of the outputs: none if the model
// has no cross-attention (an encoder). Throws Error(kInvalidArgument) for a layer or head that isn't there.
std::vector<std::string> add_weights(Model& model, const HeadSelection& selection);

}  // namespace attune
