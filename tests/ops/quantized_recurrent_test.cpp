// com.microsoft DynamicQuantizeLSTM: 8-bit weights, and inputs and states quantised as they come.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/ops/node_runner.h"
#include "tests/support/error_matchers.h"

namespace attune::testing {
namespace {

constexpr int64_t kSteps = 4, kBatch = 2, kInputs = 5, kHidden = 3, kWidth = 4 * kHidden;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// The values that uint8 quantisation by the range (0 included) leaves.
std::vector<double> quantized(const std::vector<double>& x) {
  double low = 0, high = 0;
  for (const double v : x) low = std::min(low, v), high = std::max(high, v);
  const double scale = (high - low) / 255;
  if (scale == 0) return x;
  const double zero = std::nearbyint(-low / scale);
  std::vector<double> out;
  for (const double v : x) out.push_back((std::clamp(std::nearbyint(v / scale) + zero, 0.0, 255.0) - zero) * scale);
  return out;
}

struct Weights {
  int64_t inner;
  Tensor values, scales, zeros;
  // Row k, column n of direction d.
  double at(int64_t d, int64_t k, int64_t n) const {
    const int64_t each = scales.count() / values.dim(0), s = each == 1 ? d : d * each + n;
    const auto code = values.to_int64()[static_cast<size_t>((d * inner + k) * kWidth + n)];
    return static_cast<double>(code - zeros.to_int64()[static_cast<size_t>(s)]) *
           scales.to_double()[static_cast<size_t>(s)];
  }
};

template <class T>
Weights random_weights(int64_t directions, int64_t inner, bool per_column, uint32_t seed) {
  const int low = std::is_signed_v<T> ? -100 : 20;
  const int64_t scales = per_column ? kWidth : 1;
  const Shape shape = per_column ? Shape{directions, scales} : Shape{directions};
  return {inner, random_integers<T>({directions, inner, kWidth}, seed, low, low + 200),
          random_tensor(shape, seed + 1, 0.002F, 0.01F), random_integers<T>(shape, seed + 2, low + 60, low + 120)};
}

// Y (steps, directions, batch, hidden) by LSTM's equations.
std::vector<double> reference(const Tensor& x, const Weights& w, const Weights& r, const Tensor& b) {
  const int64_t directions = w.values.dim(0);
  const std::vector<double> xq = quantized(x.to_double()), bias = b.to_double();
  std::vector<double> y(static_cast<size_t>(kSteps * directions * kBatch * kHidden));
  for (int64_t d = 0; d < directions; ++d) {
    std::vector<double> h(kBatch * kHidden, 0), c(kBatch * kHidden, 0);
    for (int64_t s = 0; s < kSteps; ++s) {
      const int64_t t = d == 0 ? s : kSteps - 1 - s;
      const std::vector<double> hq = quantized(h);
      for (int64_t i = 0; i < kBatch; ++i) {
        std::vector<double> gates(kWidth);
        for (int64_t n = 0; n < kWidth; ++n) {
          double sum =
              bias[static_cast<size_t>(d * 2 * kWidth + n)] + bias[static_cast<size_t>((d * 2 + 1) * kWidth + n)];
          for (int64_t k = 0; k < kInputs; ++k)
            sum += xq[static_cast<size_t>((t * kBatch + i) * kInputs + k)] * w.at(d, k, n);
          for (int64_t k = 0; k < kHidden; ++k) sum += hq[static_cast<size_t>(i * kHidden + k)] * r.at(d, k, n);
          gates[static_cast<size_t>(n)] = sum;
        }
        for (int64_t k = 0; k < kHidden; ++k) {  // gates i, o, f, c
          const auto at = static_cast<size_t>(i * kHidden + k);
          const auto gate = [&](int64_t g) { return gates[static_cast<size_t>(g * kHidden + k)]; };
          c[at] = sigmoid(gate(2)) * c[at] + sigmoid(gate(0)) * std::tanh(gate(3));
          h[at] = sigmoid(gate(1)) * std::tanh(c[at]);
          y[static_cast<size_t>(((t * directions + d) * kBatch + i) * kHidden + k)] = h[at];
        }
      }
    }
  }
  return y;
}

struct Case {
  bool bidirectional, per_column, is_signed;
};

class DynamicQuantizeLstm : public ::testing::TestWithParam<Case> {};

TEST_P(DynamicQuantizeLstm, FollowsTheEquations) {
  const Case& c = GetParam();
  const int64_t directions = c.bidirectional ? 2 : 1;
  const auto make = [&](int64_t inner, uint32_t seed) {
    return c.is_signed ? random_weights<int8_t>(directions, inner, c.per_column, seed)
                       : random_weights<uint8_t>(directions, inner, c.per_column, seed);
  };
  const Weights w = make(kInputs, 1), r = make(kHidden, 10);
  const Tensor x = random_tensor({kSteps, kBatch, kInputs}, 20), b = random_tensor({directions, 2 * kWidth}, 21);
  const auto outputs =
      run_node({.type = "DynamicQuantizeLSTM",
                .domain = "com.microsoft",
                .attributes = {{"hidden_size", kHidden},
                               {"direction", std::string(c.bidirectional ? "bidirectional" : "forward")}},
                .opset = 1,
                .first_constant = 1},
               {x, w.values, r.values, b, {}, {}, {}, {}, w.scales, w.zeros, r.scales, r.zeros});
  // A value that lies next to a tie may fall to either side: less than a step of the state's quantisation.
  EXPECT_LT(largest_error(outputs[0].tensor(), reference(x, w, r, b)), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Cases, DynamicQuantizeLstm,
                         ::testing::Values(Case{false, false, true}, Case{true, false, true}, Case{true, true, true},
                                           Case{false, true, false}, Case{true, false, false}));

TEST(DynamicQuantizeLstmErrors, Shapes) {
  const Weights w = random_weights<int8_t>(1, kInputs, false, 1), r = random_weights<int8_t>(1, kHidden, false, 2);
  const auto run = [&](const Tensor& x, const Tensor& scales) {
    return test::thrown([&] {
      run_node({.type = "DynamicQuantizeLSTM",
                .domain = "com.microsoft",
                .attributes = {{"hidden_size", kHidden}},
                .opset = 1,
                .first_constant = 1},
               {x, w.values, r.values, {}, {}, {}, {}, {}, scales, w.zeros, r.scales, r.zeros});
    });
  };
  EXPECT_THAT(run(random_tensor({kSteps, kBatch, kInputs + 1}, 3), w.scales),
              test::IsError(Error::Kind::kInvalidArgument, "input 0: expected 5 inputs a step"));
  EXPECT_THAT(run(random_tensor({kSteps, kBatch, kInputs}, 3), random_tensor({7}, 4)),
              test::IsError(Error::Kind::kInvalidArgument, "scales: expected 1 or 12 values"));
}

}  // namespace
}  // namespace attune::testing
