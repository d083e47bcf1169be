// oneDNN's LSTM: one direction, float32, the default activations, all rows of the same length; no peepholes, clip or
// coupled gates.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "graph/tensor.h"

namespace attune::onednn {

struct LstmSizes {
  int64_t steps = 0, batch = 0;
  bool backwards = false;  // from the last step to the first
  int threads = 0;         // those that OpenMP gives now; part of the key
  friend bool operator==(const LstmSizes&, const LstmSizes&) = default;
};

// Operands of one call, contiguous.
struct LstmCall {
  const float* x = nullptr;     // (steps, batch, inputs)
  const float* bias = nullptr;  // (8 hidden): of the inputs, then of the state; or null
  float* h = nullptr;           // (batch, hidden), replaced by the state at the end
  float* c = nullptr;           // likewise
  float* y = nullptr;           // (steps, batch, hidden)
};

// The weights in the form oneDNN asks for, and primitives for the sizes seen last. Thread-safe.
class Lstm {
 public:
  // Float tensors (4 hidden, inputs) and (4 hidden, hidden), gates i, o, f, c as ONNX has them: read at the first run.
  Lstm(Tensor input, Tensor recurrent);
  ~Lstm();
  Lstm(const Lstm&) = delete;
  Lstm& operator=(const Lstm&) = delete;

  // False, with nothing done, where oneDNN only has its reference implementation.
  bool run(const LstmCall& call, int64_t steps, int64_t batch, bool backwards, BufferPool* pool) const;
  // Of the last run; empty if there was none.
  std::string implementation() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace attune::onednn
