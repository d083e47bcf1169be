// Finds the attentions of a model, in whatever form: fused operators, and a softmax between a product of scores and
// a product with values. For people to look at; rewriting is the passes' work.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace attune::cli {

// Where a query, key or value comes from.
struct AttentionFeed {
  std::string source;      // the value behind projection, reshapes and cache
  bool projected = false;  // by a product with a constant
  std::string past;        // the cache that it is appended to; empty: none
};

struct AttentionSummary {
  std::string node;                            // label of the operator, or of the softmax
  std::string place;                           // labels of the nodes around its body; empty at the top
  std::string form;                            // "softmax" or the operator's name
  std::string kind;                            // "self", "cross", or empty if it can't be told
  std::string score;                           // "product" or "additive"
  std::string heads, head_width, value_width;  // symbolic; "?" if unknown
  AttentionFeed query, key, value;
  std::vector<std::string> masks;  // "'causal_mask' (Where) of 'attention_mask'", "causal", ...
};

// Types should have been inferred: heads and widths come from them.
std::vector<AttentionSummary> find_attentions(const Graph& graph);

}  // namespace attune::cli
