// What RNN, GRU and LSTM do with the products of a step.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace attune {

enum class Cell { kRnn, kGru, kLstm };

// An activation of the recurrent operators, with its alpha and beta.
class CellActivation {
 public:
  // The names of ONNX, any case. Throws Error(kInvalidModel) for others.
  explicit CellActivation(std::string_view name);
  bool takes_alpha() const;
  bool takes_beta() const;
  void set_alpha(float alpha) { alpha_ = alpha; }
  void set_beta(float beta) { beta_ = beta; }

  // values[i] = activation(clamp(values[i], -clip, clip)); clip 0: no clamp.
  void apply(float* values, int64_t count, float clip) const;
  void apply(double* values, int64_t count, float clip) const;
  friend bool operator==(const CellActivation&, const CellActivation&) = default;

 private:
  enum class Kind {
    kRelu,
    kTanh,
    kSigmoid,
    kAffine,
    kLeakyRelu,
    kThresholdedRelu,
    kScaledTanh,
    kHardSigmoid,
    kElu,
    kSoftsign,
    kSoftplus
  };
  template <class T>
  T evaluate(T x) const;
  Kind kind_;
  float alpha_ = 1, beta_ = 0;
};

// What the step of one row works on; n elements a gate.
template <class T>
struct CellRow {
  int64_t direction, n;
  T* g;                // the inputs' products, overwritten
  const T* r;          // the state's
  const T* candidate;  // of GRU that resets the state before the product: the product of that; else null
  const T* peepholes;  // i, o, f, or null
  T *h, *c;            // the state
};

// The equations of ONNX's operators, with their attributes activations, activation_alpha, activation_beta, clip and
// input_forget.
class RecurrentCell {
 public:
  // Throws Error(kInvalidModel) for unknown activations or a wrong number of them.
  RecurrentCell(Cell cell, const Node& node, size_t directions);

  Cell cell() const { return cell_; }
  int64_t gates() const { return cell_ == Cell::kRnn ? 1 : cell_ == Cell::kGru ? 3 : 4; }
  // The default activations, no clip, no coupled gates.
  bool plain() const { return plain_; }

  // GRU that resets the state before the product: gates z and r, and `reset`, the state that r lets through.
  template <class T>
  void reset_state(const CellRow<T>& row, T* reset) const;
  // The new state.
  template <class T>
  void step(const CellRow<T>& row) const;

 private:
  const CellActivation& activation(int64_t direction, size_t i) const;
  template <class T>
  void step_rnn(const CellRow<T>& row) const;
  template <class T>
  void step_gru(const CellRow<T>& row) const;
  template <class T>
  void step_lstm(const CellRow<T>& row) const;
  void step_plain(const CellRow<float>& row) const;

  Cell cell_;
  float clip_;
  bool coupled_, plain_;
  size_t per_direction_;  // activations
  std::vector<CellActivation> activations_;
};

}  // namespace attune
