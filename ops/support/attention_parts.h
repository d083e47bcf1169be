// The parts of an attention by what they depend on, so that what depends on fixed inputs runs once.
#pragma once

#include <functional>

#include <string_view>

#include "graph/graph.h"

namespace attune {

// Metadata of a model: "float16" or "bfloat16", in which keys and values that are computed once a memory are kept.
inline constexpr std::string_view kCacheTypeKey = "attune.kv_type";

bool is_attention(const Node& node);  // ai.attune::Attention

// Takes the projections of keys and values out of `node` (ai.attune::Attention in `graph`) where they depend on values
// that `fixed` accepts, and on constants, alone: as ai.attune::Linear (or Add for a bias without weights), Reshape and
// Transpose in front of the node, which then gets keys or values of four dimensions. So the projected memory of a
// cross-attention, for every score, is computed once a memory. The graph computes the same. Gives true if it changed.
bool split_by_fixed_inputs(Graph& graph, Node& node, const std::function<bool(const Value*)>& fixed);

}  // namespace attune
