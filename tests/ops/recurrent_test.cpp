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
  int64_t batch = 3;
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.type << ' ' << c.direction; }

// More than a vector of each instruction set, and a rest.
constexpr int64_t kSteps = 5, kInputs = 4, kHidden = 19;

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
  const int64_t batch = c.batch;
  const Tensor x = random_tensor({kSteps, batch, kInputs}, 1),
               w = random_tensor({directions, gates * kHidden, kInputs}, 2),
               r = random_tensor({directions, gates * kHidden, kHidden}, 3),
               b = random_tensor({directions, 2 * gates * kHidden}, 4),
               h0 = random_tensor({directions, batch, kHidden}, 5), c0 = random_tensor({directions, batch, kHidden}, 6),
               p = c.peepholes ? random_tensor({directions, 3 * kHidden}, 7) : Tensor();
  std::vector<int32_t> lengths(static_cast<size_t>(batch), kSteps);
  for (size_t i = 0; c.lengths && i < lengths.size(); ++i) lengths[i] = i % 3 == 0 ? 5 : i % 3 == 1 ? 2 : 3;
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
      swap(x), w, r, b, c.lengths ? Tensor::from<int32_t>({batch}, std::span(lengths)) : Tensor(), swap(h0)};
  if (lstm) inputs.insert(inputs.end(), {swap(c0), p});

  std::vector<double> y(static_cast<size_t>(kSteps * directions * batch * kHidden)), y_h, y_c;
  const auto xs = x.to_double(), ws = w.to_double(), rs = r.to_double(), bs = b.to_double(), h_all = h0.to_double(),
             c_all = c0.to_double();
  const auto ps = p.defined() ? p.to_double() : std::vector<double>();
  for (int64_t d = 0; d < directions; ++d)
    for (int64_t n = 0; n < batch; ++n) {
      const Reference reference{c, xs, ws, rs, bs, ps, gates, d};
      const auto begin = (d * batch + n) * kHidden;
      std::vector<double> h(h_all.begin() + begin, h_all.begin() + begin + kHidden),
          cell(c_all.begin() + begin, c_all.begin() + begin + kHidden);
      const int64_t length = lengths[static_cast<size_t>(n)];
      for (int64_t s = 0; s < length; ++s) {
        const int64_t t = c.direction == "reverse" || d == 1 ? length - 1 - s : s;
        reference.step(xs.data() + (t * batch + n) * kInputs, h, cell);
        for (int64_t i = 0; i < kHidden; ++i) {
          const int64_t at = c.batch_first ? ((n * kSteps + t) * directions + d) * kHidden + i
                                           : ((t * directions + d) * batch + n) * kHidden + i;
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
                                           Case{"LSTM", "forward", false, false, false, false, false, 0.3F},
                                           // The inputs of some steps at once, not of all.
                                           Case{"GRU", "bidirectional", true, false, false, false, false, 0, 1500},
                                           Case{"LSTM", "bidirectional", false, true, false, false, true, 0, 1500},
                                           // Rows enough for oneDNN's primitive.
                                           Case{"LSTM", "forward", false, false, false, false, false, 0, 40},
                                           Case{"LSTM", "reverse", false, false, false, false, false, 0, 40},
                                           Case{"LSTM", "bidirectional", false, false, false, false, true, 0, 40}));

// Inputs beyond what exp can take saturate the gates; NaN stays in its row.
TEST(Recurrent, LargeInputsAndNan) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const std::string type : {"RNN", "GRU", "LSTM"})
    for (const int64_t after : {0, 1}) {
      const int64_t gates = type == "RNN" ? 1 : type == "GRU" ? 3 : 4;
      std::vector<float> ones(static_cast<size_t>(gates), 1), zeros(static_cast<size_t>(gates), 0);
      Attributes attributes{{"hidden_size", int64_t{1}}};
      if (type == "GRU") attributes["linear_before_reset"] = after;
      const auto y = run_node({.type = type, .attributes = attributes, .opset = 14, .outputs = 2, .first_constant = 1},
                              {Tensor::from<float>({1, 3, 1}, {1000, -1000, kNan}),
                               Tensor::from<float>({1, gates, 1}, std::span<const float>(ones)),
                               Tensor::from<float>({1, gates, 1}, std::span<const float>(zeros))});
      const float* h = y[1].tensor().data<float>();
      // RNN: tanh(x). GRU: z is 1 or 0, so the old state 0, or tanh(-1000). LSTM: sigmoid(x) tanh(sigmoid(x) tanh(x)).
      EXPECT_NEAR(h[0], type == "RNN" ? 1 : type == "GRU" ? 0 : std::tanh(1.0F), 1e-6F) << type;
      EXPECT_NEAR(h[1], type == "LSTM" ? 0 : -1, 1e-6F) << type;
      EXPECT_TRUE(std::isnan(h[2])) << type;
    }
}

TEST(Recurrent, RefusesLengthsBeyondTheSteps) {
  const Tensor x = random_tensor({2, 1, 3}, 1), w = random_tensor({1, 12, 3}, 2), r = random_tensor({1, 12, 4}, 3);
  EXPECT_THROW(run_node({.type = "GRU", .attributes = {{"hidden_size", int64_t{4}}}, .opset = 14},
                        {x, w, r, Tensor(), Tensor::from<int32_t>({1}, {3})}),
               Error);
}

}  // namespace
}  // namespace attune::testing
