// The function body of ai.attune::Attention: its meaning in standard operators.
#pragma once

#include "graph/graph.h"

namespace attune {

struct BodyOptions;

// Fills `body`, which has an input for each input position of `node` (its type known there), with the node's meaning,
// and gives the value of each output position. Throws Error(kUnsupported) with the reason where there is no body:
// sampling, an unknown rank or element type of an operand.
std::vector<Value*> build_attention_body(const Node& node, int64_t opset, Graph& body, const BodyOptions& options);

}  // namespace attune
