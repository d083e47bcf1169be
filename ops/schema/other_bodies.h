// Function bodies of the smaller operators of ai.attune. Contracts as in attention_body.h.
#pragma once

#include "graph/graph.h"

namespace attune {

std::vector<Value*> build_linear_body(const Node& node, int64_t opset, Graph& body);
std::vector<Value*> build_residual_normalization_body(const Node& node, int64_t opset, Graph& body);
std::vector<Value*> build_position_embedding_body(const Node& node, int64_t opset, Graph& body);
std::vector<Value*> build_relative_position_bias_body(const Node& node, int64_t opset, Graph& body);

}  // namespace attune
