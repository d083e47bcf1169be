// Files in which the operators of ai.attune are model-local functions, too: target `portable` of the converter.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace attune {

inline constexpr std::string_view kAttuneDomain = "ai.attune";

// The nodes of domain ai.attune, those of bodies included.
std::vector<Node*> attune_nodes(const Model& model);
// Gives `node` another type, with the same inputs, outputs and attributes.
Node* retype(Node* node, const std::string& type);

// Portable files back to ai.attune nodes: a call of a function "Attention_2" of domain ai.attune becomes an Attention
// node, and the function goes: attune has a kernel where the function only says what it computes. Gives the number of
// nodes.
size_t read_portable(Model& model);

}  // namespace attune
