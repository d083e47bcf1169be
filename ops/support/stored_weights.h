// Constant matrices behind a node that widens them: how weights are stored narrow in ordinary ONNX.
#pragma once

#include <optional>

#include "ops/kernel.h"

namespace attune {

// The value of input `i` of a node is `values` as float32 (a Cast), or `values` times `scales`, each of which belongs
// to a block of row_block x column_block elements (a DequantizeLinear whose zero points are zero).
struct StoredMatrix {
  Tensor values;  // rank 2: float16, bfloat16; int8 or int4 with scales
  Tensor scales;  // float (rows / row_block, columns / column_block), rounded up; undefined for a Cast
  int64_t row_block = 1, column_block = 1;
};

// Row `row` as floats.
void read_row(const StoredMatrix& m, int64_t row, float* to);

// Nothing if it is no such constant (or null).
std::optional<StoredMatrix> stored_matrix(const Value* value);
std::optional<StoredMatrix> stored_matrix(const KernelContext& context, size_t i);
// True for the nodes that stored_matrix() looks through.
bool widens_stored_matrix(const Node& node);
// True if the kernel of `node` takes input `i` in its narrow storage, so that nobody needs to widen it.
bool takes_stored_matrix(const Node& node, size_t i);

}  // namespace attune
