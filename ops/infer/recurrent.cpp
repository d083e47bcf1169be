// RNN, GRU and LSTM.
#include "ops/infer/node_inference.h"

namespace attune {
namespace {

// X (T, B, I) gives Y (T, D, B, H) and Y_h, Y_c (D, B, H); with layout 1 the batch comes first:
// X (B, T, I), Y (B, T, D, H), Y_h (B, D, H). Input 5 is the initial state.
void infer_recurrent(NodeInference& n) {
  n.expect_rank(0, 3);
  n.expect_rank(1, 3);
  const bool batch_first = n.node().attr_int("layout", 0) != 0;
  const int64_t directions = n.node().attr_string("direction", "forward") == "bidirectional" ? 2 : 1;
  n.unify(n.dim(1, 0), directions, "directions and the first size of W");
  const Dim width = n.node().has("hidden_size") ? Dim(n.node().attr_int("hidden_size", 0)) : n.dim(2, 2);
  const Dim length = n.dim(0, batch_first ? 1 : 0);
  Dim batch = n.dim(0, batch_first ? 0 : 1);
  if (n.has(5)) {
    n.expect_rank(5, 3);
    batch = n.unify(batch, n.dim(5, batch_first ? 0 : 1), "batch sizes of input and state");
  }
  const DataType type = n.element(0);
  n.set(0, type, batch_first ? Dims{batch, length, directions, width} : Dims{length, directions, batch, width});
  for (size_t k = 1; k < 3; ++k)
    n.set(k, type, batch_first ? Dims{batch, directions, width} : Dims{directions, batch, width});
}

}  // namespace

InferRules recurrent_rules() {
  return {{"", "RNN", 3, infer_recurrent}, {"", "GRU", 3, infer_recurrent}, {"", "LSTM", 3, infer_recurrent}};
}

}  // namespace attune
