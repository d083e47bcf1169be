// RNN, GRU and LSTM.
#include "ops/infer/node_inference.h"

namespace attune {
namespace {

// X (T, B, I) gives Y (T, D, B, H) and Y_h, Y_c (D, B, H); with layout 1 the batch comes first:
// X (B, T, I), Y (B, T, D, H), Y_h (B, D, H). W (D, gates H, I), R (D, gates H, H), B (D, 2 gates H), lengths (B).
// Inputs 5 and 6 are the initial states.
void infer_recurrent(NodeInference& n, int64_t gates) {
  n.expect_rank(0, 3);
  n.expect_rank(1, 3);
  const bool batch_first = n.node().attr_int("layout", 0) != 0;
  const int64_t directions = n.node().attr_string("direction", "forward") == "bidirectional" ? 2 : 1;
  n.unify(n.dim(1, 0), directions, "directions and the first size of W");
  const Dim width = n.node().has("hidden_size") ? Dim(n.node().attr_int("hidden_size", 0)) : n.dim(2, 2);
  const Dim length = n.dim(0, batch_first ? 1 : 0);
  Dim batch = n.dim(0, batch_first ? 0 : 1);
  for (size_t i = 5; i < 7; ++i) {
    if (!n.has(i)) continue;
    n.expect_rank(i, 3);
    batch = n.unify(batch, n.dim(i, batch_first ? 0 : 1), "batch sizes of input and state");
    n.unify(n.dim(i, batch_first ? 1 : 0), directions, "directions of node and state");
    n.unify(n.dim(i, 2), width, "widths of node and state");
  }
  n.relate_shape(1, {directions, Dim(gates) * width, n.dim(0, 2)});
  n.relate_shape(2, {directions, Dim(gates) * width, width});
  n.relate_shape(3, {directions, Dim(2 * gates) * width});
  n.relate_shape(4, {batch});
  const DataType type = n.element(0);
  n.set(0, type, batch_first ? Dims{batch, length, directions, width} : Dims{length, directions, batch, width});
  for (size_t k = 1; k < 3; ++k)
    n.set(k, type, batch_first ? Dims{batch, directions, width} : Dims{directions, batch, width});
}

}  // namespace

InferRules recurrent_rules() {
  const auto of_gates = [](int64_t gates) { return [gates](NodeInference& n) { infer_recurrent(n, gates); }; };
  return {{"", "RNN", 3, of_gates(1)}, {"", "GRU", 3, of_gates(3)}, {"", "LSTM", 3, of_gates(4)}};
}

}  // namespace attune
