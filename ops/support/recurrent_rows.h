// The step of one row of RNN, GRU and LSTM with the default activations and neither clip, peepholes nor coupled gates.
// All of n elements; x: the products of the inputs with their biases, r: those of the state.
#pragma once

#include <cstdint>

namespace attune {

// h = tanh(x + r).
void rnn_row(const float* x, const float* r, float* h, int64_t n);
// Gates i, o, f, c, one after the other: c = f c + i c', h = o tanh(c).
void lstm_row(const float* x, const float* r, float* c, float* h, int64_t n);
// Gates z, r, h, one after the other, the reset after the product: h = (1 - z) tanh(x_h + reset r_h) + z h.
void gru_row(const float* x, const float* r, float* h, int64_t n);
// The reset before the product, of which `r` has the gates z and r: `reset` = reset h, and x_z becomes z.
void gru_reset_row(float* x, const float* r, const float* h, float* reset, int64_t n);
// Then, with the product r of `reset`: h = (1 - x_z) tanh(x_h + r) + x_z h.
void gru_candidate_row(const float* x, const float* r, float* h, int64_t n);

}  // namespace attune
