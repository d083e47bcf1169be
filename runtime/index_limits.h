// Which indices a model's inputs may hold. Internal to the runtime.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/tensor.h"

namespace attune {

// An input whose elements choose rows of a table of `size` rows: token ids. `node`: where it is read.
struct IndexLimit {
  size_t input;
  int64_t size;
  std::string node;
};

// The inputs of `graph` that reach a Gather along the first axis of a stored table by nothing but casts and changes of
// shape; of several tables the smallest counts.
std::vector<IndexLimit> index_limits(const Graph& graph);

// Throws Error(kInvalidArgument) that names the input `name`, the element and the size, where an element of `indices`,
// int32 or int64, lies outside [-size, size).
void check_indices(const IndexLimit& limit, const std::string& name, const Tensor& indices);

}  // namespace attune
