#include "ops/support/recurrent_cell.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "ops/support/recurrent_rows.h"
#include "ops/support/vector_math.h"

namespace attune {
namespace {

bool equal_names(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
  });
}

// The activations of all directions, from the attributes; `defaults` if there are none.
std::vector<CellActivation> cell_activations(const Node& node, size_t directions,
                                             const std::vector<std::string>& defaults) {
  std::vector<std::string> names;
  if (const auto* given = node.find<std::vector<std::string>>("activations")) names = *given;
  if (names.empty())
    for (size_t d = 0; d < directions; ++d) names.insert(names.end(), defaults.begin(), defaults.end());
  if (names.size() != directions * defaults.size())
    throw Error(Error::Kind::kInvalidModel,
                fmt::format("expected {} activations, got {}", directions * defaults.size(), names.size()));
  const auto* alphas = node.find<std::vector<float>>("activation_alpha");
  const auto* betas = node.find<std::vector<float>>("activation_beta");
  std::vector<CellActivation> all;
  size_t next_alpha = 0, next_beta = 0;
  for (const std::string& name : names) {
    CellActivation& a = all.emplace_back(name);
    if (a.takes_alpha() && alphas && next_alpha < alphas->size()) a.set_alpha((*alphas)[next_alpha++]);
    if (a.takes_beta() && betas && next_beta < betas->size()) a.set_beta((*betas)[next_beta++]);
  }
  return all;
}

template <class T>
void add(T* to, const T* from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}

}  // namespace

CellActivation::CellActivation(std::string_view name) {
  static constexpr std::array<std::string_view, 11> kNames{
      "Relu",       "Tanh",        "Sigmoid", "Affine",   "LeakyRelu", "ThresholdedRelu",
      "ScaledTanh", "HardSigmoid", "Elu",     "Softsign", "Softplus"};
  const auto i = std::find_if(kNames.begin(), kNames.end(), [&](auto n) { return equal_names(n, name); });
  if (i == kNames.end()) throw Error(Error::Kind::kInvalidModel, fmt::format("unknown activation '{}'", name));
  kind_ = static_cast<Kind>(i - kNames.begin());
  if (kind_ == Kind::kLeakyRelu) alpha_ = 0.01F;
  if (kind_ == Kind::kHardSigmoid) alpha_ = 0.2F, beta_ = 0.5F;
}

bool CellActivation::takes_alpha() const {
  return kind_ == Kind::kAffine || kind_ == Kind::kLeakyRelu || kind_ == Kind::kThresholdedRelu ||
         kind_ == Kind::kScaledTanh || kind_ == Kind::kHardSigmoid || kind_ == Kind::kElu;
}

bool CellActivation::takes_beta() const {
  return kind_ == Kind::kAffine || kind_ == Kind::kScaledTanh || kind_ == Kind::kHardSigmoid;
}

template <class T>
T CellActivation::evaluate(T x) const {
  const T alpha = alpha_, beta = beta_;
  switch (kind_) {
    case Kind::kRelu:
      return std::max(x, T{0});
    case Kind::kTanh:
      return std::tanh(x);
    case Kind::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case Kind::kAffine:
      return alpha * x + beta;
    case Kind::kLeakyRelu:
      return x >= 0 ? x : alpha * x;
    case Kind::kThresholdedRelu:
      return x > alpha ? x : T{0};
    case Kind::kScaledTanh:
      return alpha * std::tanh(beta * x);
    case Kind::kHardSigmoid:
      return std::clamp(alpha * x + beta, T{0}, T{1});
    case Kind::kElu:
      return x >= 0 ? x : alpha * std::expm1(x);
    case Kind::kSoftsign:
      return x / (1 + std::abs(x));
    case Kind::kSoftplus:
      return std::max(x, T{0}) + std::log1p(std::exp(-std::abs(x)));
  }
  return x;
}

void CellActivation::apply(float* values, int64_t count, float clip) const {
  if (clip > 0)
    for (int64_t i = 0; i < count; ++i) values[i] = std::clamp(values[i], -clip, clip);
  switch (kind_) {
    case Kind::kTanh:
      return vector_math::tanh(values, values, static_cast<size_t>(count));
    case Kind::kSigmoid:
      return vector_math::sigmoid(values, values, static_cast<size_t>(count));
    default:
      for (int64_t i = 0; i < count; ++i) values[i] = evaluate(values[i]);
  }
}

void CellActivation::apply(double* values, int64_t count, float clip) const {
  const double limit = static_cast<double>(clip);
  for (int64_t i = 0; i < count; ++i) values[i] = evaluate(clip > 0 ? std::clamp(values[i], -limit, limit) : values[i]);
}

RecurrentCell::RecurrentCell(Cell cell, const Node& node, size_t directions)
    : cell_(cell), clip_(node.attr_float("clip", 0.0F)), coupled_(node.attr_int("input_forget", 0) != 0) {
  static const std::array<std::vector<std::string>, 3> kDefaults{
      {{"Tanh"}, {"Sigmoid", "Tanh"}, {"Sigmoid", "Tanh", "Tanh"}}};
  const auto& defaults = kDefaults[static_cast<size_t>(cell)];
  per_direction_ = defaults.size();
  activations_ = cell_activations(node, directions, defaults);
  plain_ = clip_ == 0 && !coupled_;
  for (size_t i = 0; i < activations_.size(); ++i)
    plain_ = plain_ && activations_[i] == CellActivation(defaults[i % per_direction_]);
}

const CellActivation& RecurrentCell::activation(int64_t direction, size_t i) const {
  return activations_[static_cast<size_t>(direction) * per_direction_ + i];
}

template <class T>
void RecurrentCell::step_rnn(const CellRow<T>& row) const {
  add(row.g, row.r, row.n);
  activation(row.direction, 0).apply(row.g, row.n, clip_);
  std::copy_n(row.g, row.n, row.h);
}

template <class T>
void RecurrentCell::step_gru(const CellRow<T>& row) const {
  const int64_t n = row.n;
  T *g = row.g, *new_state = g + 2 * n;
  if (row.candidate) {
    add(new_state, row.candidate, n);
  } else {
    add(g, row.r, 2 * n);
    activation(row.direction, 0).apply(g, 2 * n, clip_);
    for (int64_t i = 0; i < n; ++i) new_state[i] += g[n + i] * row.r[2 * n + i];
  }
  activation(row.direction, 1).apply(new_state, n, clip_);
  for (int64_t i = 0; i < n; ++i) row.h[i] = (1 - g[i]) * new_state[i] + g[i] * row.h[i];
}

template <class T>
void RecurrentCell::step_lstm(const CellRow<T>& row) const {
  const int64_t n = row.n, d = row.direction;
  T *g = row.g, *h = row.h, *c = row.c;
  const T* peepholes = row.peepholes;
  T *input = g, *output = g + n, *forget = g + 2 * n, *cell = g + 3 * n;
  add(g, row.r, 4 * n);
  if (peepholes)
    for (int64_t i = 0; i < n; ++i) {
      input[i] += peepholes[i] * c[i];
      forget[i] += peepholes[2 * n + i] * c[i];
    }
  activation(d, 0).apply(input, n, clip_);
  if (coupled_) {
    for (int64_t i = 0; i < n; ++i) forget[i] = 1 - input[i];
  } else {
    activation(d, 0).apply(forget, n, clip_);
  }
  activation(d, 1).apply(cell, n, clip_);
  for (int64_t i = 0; i < n; ++i) c[i] = forget[i] * c[i] + input[i] * cell[i];
  if (peepholes)
    for (int64_t i = 0; i < n; ++i) output[i] += peepholes[n + i] * c[i];
  activation(d, 0).apply(output, n, clip_);
  std::copy_n(c, n, h);
  activation(d, 2).apply(h, n, clip_);
  for (int64_t i = 0; i < n; ++i) h[i] *= output[i];
}

void RecurrentCell::step_plain(const CellRow<float>& row) const {
  switch (cell_) {
    case Cell::kRnn:
      return rnn_row(row.g, row.r, row.h, row.n);
    case Cell::kGru:
      return row.candidate ? gru_candidate_row(row.g, row.candidate, row.h, row.n)
                           : gru_row(row.g, row.r, row.h, row.n);
    case Cell::kLstm:
      return lstm_row(row.g, row.r, row.c, row.h, row.n);
  }
}

template <class T>
void RecurrentCell::reset_state(const CellRow<T>& row, T* reset) const {
  const int64_t n = row.n;
  if constexpr (std::is_same_v<T, float>)
    if (plain_) return gru_reset_row(row.g, row.r, row.h, reset, n);
  add(row.g, row.r, 2 * n);
  activation(row.direction, 0).apply(row.g, 2 * n, clip_);
  for (int64_t i = 0; i < n; ++i) reset[i] = row.g[n + i] * row.h[i];
}

template <class T>
void RecurrentCell::step(const CellRow<T>& row) const {
  if constexpr (std::is_same_v<T, float>)
    if (plain_ && !row.peepholes) return step_plain(row);
  switch (cell_) {
    case Cell::kRnn:
      return step_rnn(row);
    case Cell::kGru:
      return step_gru(row);
    case Cell::kLstm:
      return step_lstm(row);
  }
}

template void RecurrentCell::reset_state(const CellRow<float>&, float*) const;
template void RecurrentCell::reset_state(const CellRow<double>&, double*) const;
template void RecurrentCell::step(const CellRow<float>&) const;
template void RecurrentCell::step(const CellRow<double>&) const;

}  // namespace attune
