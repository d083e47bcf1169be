// Sizes of made-up inputs that the operators of a model take together.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "convert/sample_inputs.h"
#include "graph/graph.h"
#include "ops/infer/infer.h"

namespace attune {

using SizeBindings = std::map<std::string, Dim, std::less<>>;

// Symbols in terms of others, so that the relations hold for all sizes of these: a product that equals another, a
// multiple, a sum. Relations that don't determine a symbol are left out, and so are those that contradict earlier ones.
// Names in `kept` stay before others, the earlier before the later.
SizeBindings solve_sizes(const std::vector<SizeRelation>& relations, const std::vector<std::string>& kept);

// Inputs whose sizes are chosen by symbols that nothing else determines.
struct SampleForm {
  std::vector<SampleInput> inputs;
  std::vector<std::string> symbols;  // that are to be chosen
  // The symbols of the model's inputs, in terms of these; what is not declared is called INPUT#AXIS.
  std::vector<std::pair<std::string, Dim>> sizes;
};

// Given sizes of symbols, by name. Throws Error(kInvalidArgument) for a name that is no symbol of the inputs.
using GivenSizes = std::map<std::string, int64_t, std::less<>>;

// Forms to try in turn: sizes that the operators need; then, too, sizes that broadcast are the same; then sizes as they
// are declared. Throws like sample_inputs().
std::vector<SampleForm> sample_forms(const Model& model, const GivenSizes& given);

}  // namespace attune
