#include <gtest/gtest.h>

#include "tests/ops/node_runner.h"

namespace attune::testing {
namespace {

struct Case {
  std::string type;
  std::string direction;
  bool linear_before_reset = false;
  bool lengths = false;
  bool peepholes = false;
  bool input_forget = false;
  bool batch_first = false;
  float clip = 0;
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.type << ' ' << c.direction; }

constexpr int64_t kSteps = 5, kBatch = 3, kInputs = 4, kHidden = 6;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// ONNX's equations for one direction and one batch row, element by element.
struct Reference {
  const Case& c;
  const std::vector<double>&x, &w, &r, &b, &p;
  int64_t gates, direction;

  double clipped(double v) const { return c.clip > 0 ? std::clamp(v, -double{c.clip}, double{c.clip}) : v; }
  double input(int64_t gate, int64_t h, const double* xt) const {
    double sum = b[static_cast<size_t>((direction * 2 * gates + gate) * kHidden + h)];
    for (int64_t i = 0; i < kInputs; ++i)
      sum += w[static_cast<size_t>(((direction * gates + gate) * kHidden + h) * kInputs + i)] * xt[i];
    return sum;
  }
  double state(int64_t gate, int64_t h, const std::vector<double>& s) const {
    double sum = 0;
    for (int64_t i = 0; i < kHidden; ++i)
      sum +=
          r[static_cast<size_t>(((direction * gates + gate) * kHidden + h) * kHidden + i)] * s[static_cast<size_t>(i)];
    return sum;
  }
  double recurrent_bias(int64_t gate, int64_t h) const {
    return b[static_cast<size_t>((direction * 2 * gates + gates + gate) * kHidden + h)];
  }
  double peephole(int64_t gate, int64_t h) const {
    return p.empty() ? 0 : p[static_cast<size_t>((direction * 3 + gate) * kHidden + h)];
  }

  void step(const double* xt, std::vector<double>& h, std::vector<double>& cell) const {
    const std::vector<double> old = h;
    const auto full = [&](int64_t gate, int64_t i) {
      return input(gate, i, xt) + state(gate, i, old) + recurrent_bias(gate, i);
    };
    for (int64_t i = 0; i < kHidden; ++i) {
      const auto at = static_cast<size_t>(i);
      if (c.type == "RNN") h[at] = std::tanh(clipped(full(0, i)));
      if (c.type == "GRU") {
        const auto reset = [&](int64_t k) { return sigmoid(clipped(full(1, k))); };
        const double z = sigmoid(clipped(full(0, i)));
        double candidate;
        if (c.linear_before_reset) {
          candidate = input(2, i, xt) + reset(i) * (state(2, i, old) + recurrent_bias(2, i));
        } else {
          std::vector<double> gated = old;
          for (int64_t k = 0; k < kHidden; ++k) gated[static_cast<size_t>(k)] *= reset(k);
          candidate = input(2, i, xt) + state(2, i, gated) + recurrent_bias(2, i);
        }
        h[at] = (1 - z) * std::tanh(clipped(candidate)) + z * old[at];
      }
      if (c.type == "LSTM") {
        const double in = sigmoid(clipped(full(0, i) + peephole(0, i) * cell[at]));
        const double forget = c.input_forget ? 1 - in : sigmoid(clipped(full(2, i) + peephole(2, i) * cell[at]));
        const double next = forget * cell[at] + in * std::tanh(clipped(full(3, i)));
        h[at] = sigmoid(clipped(full(1, i) + peephole(1, i) * next)) * std::tanh(clipped(next));
        cell[at] = next;
      }
    }
  }
};

class Recurrent : public ::testing::TestWithParam<Case> {};

TEST_P(Recurrent, FollowsTheEquations) {
  const Case& c = GetParam();
  const int64_t directions = c.direction == "bidirectional" ? 2 : 1, gates = c.type == "RNN"   ? 1
                                                                             : c.type == "GRU" ? 3
                                                                                               : 4;
  const bool lstm = c.type == "LSTM";
  const Tensor x = random_tensor({kSteps, kBatch, kInputs}, 1),
               w = random_tensor({directions, gates * kHidden, kInputs}, 2),
               r = random_tensor({directions, gates * kHidden, kHidden}, 3),
               b = random_tensor({directions, 2 * gates * kHidden}, 4),
               h0 = random_tensor({directions, kBatch, kHidden}, 5),
               c0 = random_tensor({directions, kBatch, kHidden}, 6),
               p = c.peepholes ? random_tensor({directions, 3 * kHidden}, 7) : Tensor();
  const std::vector<int32_t> lengths = c.lengths ? std::vector<int32_t>{5, 2, 3} : std::vector<int32_t>{5, 5, 5};
  // In the layout the node has: axes 0 and 1 swapped if the batch comes first.
  const auto swap = [&](const Tensor& t) {
    if (!c.batch_first) return t;
    Tensor s = Tensor::allocate(DataType::kFloat, {t.dim(1), t.dim(0), t.dim(2)});
    for (int64_t i = 0; i < t.dim(0); ++i)
      for (int64_t j = 0; j < t.dim(1); ++j)
        for (int64_t k = 0; k < t.dim(2); ++k)
          s.mutable_data<float>()[(j * t.dim(0) + i) * t.dim(2) + k] =
              t.data<float>()[(i * t.dim(1) + j) * t.dim(2) + k];
    return s;
  };
  Attributes attributes{{"hidden_size", kHidden}, {"direction", c.direction}, {"layout", int64_t{c.batch_first}}};
  if (c.type == "GRU") attributes["linear_before_reset"] = int64_t{c.linear_before_reset};
  if (lstm) attributes["input_forget"] = int64_t{c.input_forget};
  if (c.clip > 0) attributes["clip"] = c.clip;
  std::vector<Tensor> inputs{
      swap(x), w, r, b, c.lengths ? Tensor::from<int32_t>({kBatch}, std::span(lengths)) : Tensor(), swap(h0)};
  if (lstm) inputs.insert(inputs.end(), {swap(c0), p});

  std::vector<double> y(static_cast<size_t>(kSteps * directions * kBatch * kHidden)), y_h, y_c;
  const auto xs = x.to_double(), ws = w.to_double(), rs = r.to_double(), bs = b.to_double(), h_all = h0.to_double(),
             c_all = c0.to_double();
  const auto ps = p.defined() ? p.to_double() : std::vector<double>();
  for (int64_t d = 0; d < directions; ++d)
    for (int64_t n = 0; n < kBatch; ++n) {
      const Reference reference{c, xs, ws, rs, bs, ps, gates, d};
      const auto begin = (d * kBatch + n) * kHidden;
      std::vector<double> h(h_all.begin() + begin, h_all.begin() + begin + kHidden),
          cell(c_all.begin() + begin, c_all.begin() + begin + kHidden);
      const int64_t length = lengths[static_cast<size_t>(n)];
      for (int64_t s = 0; s < length; ++s) {
        const int64_t t = c.direction == "reverse" || d == 1 ? length - 1 - s : s;
        reference.step(xs.data() + (t * kBatch + n) * kInputs, h, cell);
        for (int64_t i = 0; i < kHidden; ++i) {
          const int64_t at = c.batch_first ? ((n * kSteps + t) * directions + d) * kHidden + i
                                           : ((t * directions + d) * kBatch + n) * kHidden + i;
          y[static_cast<size_t>(at)] = h[static_cast<size_t>(i)];
        }
      }
      y_h.insert(y_h.end(), h.begin(), h.end());
      y_c.insert(y_c.end(), cell.begin(), cell.end());
    }
  for (const size_t constant : {size_t{1}, ~size_t{0}}) {
    const auto out = run_node({.type = c.type,
                               .attributes = attributes,
                               .opset = 14,
                               .outputs = lstm ? size_t{3} : size_t{2},
                               .first_constant = constant},
                              inputs);
    EXPECT_LT(largest_error(out[0].tensor(), y), 1e-5);
    const auto unswapped = [&](const Tensor& t) { return swap(t); };
    EXPECT_LT(largest_error(unswapped(out[1].tensor()), y_h), 1e-5);
    if (lstm) {
      EXPECT_LT(largest_error(unswapped(out[2].tensor()), y_c), 1e-5);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Recurrent,
                         ::testing::Values(Case{"RNN", "forward"}, Case{"RNN", "bidirectional", false, true},
                                           Case{"GRU", "forward"}, Case{"GRU", "forward", true},
                                           Case{"GRU", "reverse", true, true},
                                           Case{"GRU", "bidirectional", false, true},
                                           Case{"GRU", "bidirectional", true, true, false, false, true},
                                           Case{"GRU", "forward", false, false, false, false, false, 0.3F},
                                           Case{"LSTM", "forward"}, Case{"LSTM", "bidirectional", false, true},
                                           Case{"LSTM", "reverse", false, true, true},
                                           Case{"LSTM", "forward", false, false, true, true},
                                           Case{"LSTM", "bidirectional", false, true, true, false, true},
                                           Case{"LSTM", "forward", false, false, false, false, false, 0.3F}));

TEST(Recurrent, RefusesLengthsBeyondTheSteps) {
  const Tensor x = random_tensor({2, 1, 3}, 1), w = random_tensor({1, 12, 3}, 2), r = random_tensor({1, 12, 4}, 3);
  EXPECT_THROW(run_node({.type = "GRU", .attributes = {{"hidden_size", int64_t{4}}}, .opset = 14},
                        {x, w, r, Tensor(), Tensor::from<int32_t>({1}, {3})}),
               Error);
}

}  // namespace
}  // namespace attune::testing
