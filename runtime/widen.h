// Values between operators in float32 instead of float16 and bfloat16: in plans, and in files that convert writes.
#pragma once

#include <functional>

#include "graph/graph.h"

namespace attune {

// True if some value of `graph` or its bodies is a float16 or bfloat16 tensor, as far as its type or constant says.
bool has_halves(const Graph& graph);

// How a constant matrix of halves is given to an operator whose other inputs became float32.
enum class HalfMatrices {
  kAsStored,     // where the kernel takes it so, whatever the type of the other inputs: for plans only
  kBehindCasts,  // as operators of ONNX want it; ai.attune Linear takes it as stored
};

// How keys and values of halves that were cached are given to an ai.attune Attention.
enum class HalfCaches {
  kAsStored,     // in plans beside float32 queries; in files, whose operators have one type, with all else in halves
  kBehindCasts,  // as float32, and so are those for the next step narrowed
};

// Kernels compute halves (float16, bfloat16) in float32. Rounding each result to a half, which the next kernel widens
// again, costs time and accuracy, so values that a computing operator gives stay float32 for the computing operators
// that read them, in `graph` and its bodies. Halves stay what comes in, what goes out, weights, caches, the results of
// a Cast to a half from another type, and whatever an operator that isn't known to compute reads or gives. The types of
// all values must be known (see Inference); where one isn't, nothing is changed. `added` is called for each Cast that
// is put in.
void widen_halves(Graph& graph, HalfMatrices matrices, HalfCaches caches, const std::function<void(Node&)>& added);

}  // namespace attune
