// Values between operators in float32 instead of float16 and bfloat16. Internal to the runtime.
#pragma once

#include <functional>

#include "graph/graph.h"

namespace attune {

// True if some value of `graph` or its bodies is a float16 or bfloat16 tensor, as far as its type or constant says.
bool has_halves(const Graph& graph);

// Kernels compute halves (float16, bfloat16) in float32. Rounding each result to a half, which the next kernel widens
// again, costs time and accuracy, so values that a computing operator gives stay float32 for the computing operators
// that read them, in `graph` and its bodies. Halves stay what comes in, what goes out, weights, caches and what
// attends to them, the results of a Cast to a half from another type, and whatever an operator that isn't known to
// compute reads or gives. The types of all values must be known (see Inference); where one isn't, nothing is changed.
// `added` is called for each Cast that is put in.
void widen_halves(Graph& graph, const std::function<void(Node&)>& added);

}  // namespace attune
