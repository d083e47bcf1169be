// Symbols of a model's inputs: which there are, and what shapes are for given sizes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace attune {

using SymbolSizes = std::map<std::string, int64_t, std::less<>>;

// All symbols in the shapes of the graph's inputs ("batch", "past_length"), sorted.
std::vector<std::string> input_symbols(const Model& model);

// The shape for given sizes of the symbols; nothing if the rank or a size isn't known, or a size is negative.
std::optional<Shape> shape_for(const TensorType& type, const SymbolSizes& sizes);

// The sizes of the symbols for given shapes of inputs (by name; others are ignored). A size such as "past + 1" is
// solved for its symbol, a quotient for the smallest. Symbols that stay open are left out.
// Throws Error(kInvalidArgument) that names the input where rank or sizes contradict.
SymbolSizes solve_symbols(const Graph& graph, const std::map<std::string, Shape, std::less<>>& shapes);

}  // namespace attune
