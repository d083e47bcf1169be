#include <gtest/gtest.h>

#include "tests/ops/node_runner.h"

namespace attune::testing {
namespace {

struct Case {
  int64_t channels, out_channels, groups;
  std::vector<int64_t> in, kernel, strides, dilations, pads;
};

std::vector<int64_t> unravel(int64_t flat, const std::vector<int64_t>& sizes) {
  std::vector<int64_t> at(sizes.size());
  for (size_t i = sizes.size(); i-- > 0;) {
    at[i] = flat % sizes[i];
    flat /= sizes[i];
  }
  return at;
}

int64_t product(const std::vector<int64_t>& sizes) {
  int64_t n = 1;
  for (const int64_t s : sizes) n *= s;
  return n;
}

Shape shape(int64_t a, int64_t b, const std::vector<int64_t>& rest) {
  Shape s{a, b};
  for (const int64_t v : rest) s.push_back(v);
  return s;
}

// Calls f(image, output channel, output position, input channel of the group, kernel position, input position).
template <class F>
void for_each_term(const Case& c, const std::vector<int64_t>& out, F&& f) {
  const int64_t per_group = c.channels / c.groups;
  for (int64_t n = 0; n < 2; ++n)
    for (int64_t o = 0; o < c.out_channels; ++o)
      for (int64_t p = 0; p < product(out); ++p)
        for (int64_t i = 0; i < per_group; ++i)
          for (int64_t k = 0; k < product(c.kernel); ++k) {
            const auto at = unravel(p, out), tap = unravel(k, c.kernel);
            int64_t index = 0;
            bool inside = true;
            for (size_t a = 0; a < at.size(); ++a) {
              const int64_t v = at[a] * c.strides[a] + tap[a] * c.dilations[a] - c.pads[a];
              inside = inside && v >= 0 && v < c.in[a];
              index = index * c.in[a] + v;
            }
            if (inside) f(n, o, p, i, k, index);
          }
}

class Convolution : public ::testing::TestWithParam<Case> {
 protected:
  std::vector<int64_t> out() const {
    const Case& c = GetParam();
    std::vector<int64_t> out;
    for (size_t a = 0; a < c.in.size(); ++a)
      out.push_back(
          (c.in[a] + c.pads[a] + c.pads[c.in.size() + a] - (c.kernel[a] - 1) * c.dilations[a] - 1) / c.strides[a] + 1);
    return out;
  }
  Attributes attributes() const {
    const Case& c = GetParam();
    return {{"strides", c.strides}, {"dilations", c.dilations}, {"pads", c.pads}, {"group", c.groups}};
  }
};

TEST_P(Convolution, EqualsTheSumOverItsWindow) {
  const Case& c = GetParam();
  const Tensor x = random_tensor(shape(2, c.channels, c.in), 1),
               w = random_tensor(shape(c.out_channels, c.channels / c.groups, c.kernel), 2),
               b = random_tensor({c.out_channels}, 3);
  const auto xs = x.to_double(), ws = w.to_double(), bs = b.to_double();
  const int64_t positions = product(out()), taps = product(c.kernel), size = product(c.in),
                per_group = c.channels / c.groups;
  std::vector<double> want(static_cast<size_t>(2 * c.out_channels * positions));
  for (size_t i = 0; i < want.size(); ++i) want[i] = bs[i / static_cast<size_t>(positions) % bs.size()];
  for_each_term(c, out(), [&](int64_t n, int64_t o, int64_t p, int64_t i, int64_t k, int64_t from) {
    const int64_t channel = o / (c.out_channels / c.groups) * per_group + i;
    want[static_cast<size_t>((n * c.out_channels + o) * positions + p)] +=
        xs[static_cast<size_t>((n * c.channels + channel) * size + from)] *
        ws[static_cast<size_t>((o * per_group + i) * taps + k)];
  });
  EXPECT_LT(largest_error(run_node({.type = "Conv", .attributes = attributes()}, {x, w, b})[0].tensor(), want), 1e-5);
}

// The transposed convolution is the convolution's adjoint: <conv(x), y> = <x, conv_transpose(y)>, for every unit x.
TEST_P(Convolution, TransposedIsTheAdjoint) {
  const Case& c = GetParam();
  const Tensor y = random_tensor(shape(2, c.out_channels, out()), 1),
               w = random_tensor(shape(c.out_channels, c.channels / c.groups, c.kernel), 2);
  const auto ys = y.to_double(), ws = w.to_double();
  const int64_t positions = product(out()), taps = product(c.kernel), size = product(c.in),
                per_group = c.channels / c.groups;
  std::vector<double> want(static_cast<size_t>(2 * c.channels * size));
  for_each_term(c, out(), [&](int64_t n, int64_t o, int64_t p, int64_t i, int64_t k, int64_t from) {
    const int64_t channel = o / (c.out_channels / c.groups) * per_group + i;
    want[static_cast<size_t>((n * c.channels + channel) * size + from)] +=
        ys[static_cast<size_t>((n * c.out_channels + o) * positions + p)] *
        ws[static_cast<size_t>((o * per_group + i) * taps + k)];
  });
  Attributes a = attributes();
  std::vector<int64_t> missing;
  for (size_t i = 0; i < c.in.size(); ++i)
    missing.push_back(c.in[i] - ((out()[i] - 1) * c.strides[i] + (c.kernel[i] - 1) * c.dilations[i] + 1 - c.pads[i] -
                                 c.pads[c.in.size() + i]));
  a["output_padding"] = missing;
  EXPECT_LT(largest_error(run_node({.type = "ConvTranspose", .attributes = a}, {y, w})[0].tensor(), want), 1e-5);
}

TEST_P(Convolution, OfIntegersIsExact) {
  const Case& c = GetParam();
  const Tensor x = random_integers<uint8_t>(shape(2, c.channels, c.in), 1, 0, 255),
               w = random_integers<int8_t>(shape(c.out_channels, c.channels / c.groups, c.kernel), 2, -128, 127);
  const auto xs = x.to_double(), ws = w.to_double();
  const int64_t positions = product(out()), taps = product(c.kernel), size = product(c.in),
                per_group = c.channels / c.groups;
  std::vector<double> want(static_cast<size_t>(2 * c.out_channels * positions));
  for_each_term(c, out(), [&](int64_t n, int64_t o, int64_t p, int64_t i, int64_t k, int64_t from) {
    const int64_t channel = o / (c.out_channels / c.groups) * per_group + i;
    want[static_cast<size_t>((n * c.out_channels + o) * positions + p)] +=
        (xs[static_cast<size_t>((n * c.channels + channel) * size + from)] - 17) *
        ws[static_cast<size_t>((o * per_group + i) * taps + k)];
  });
  EXPECT_EQ(run_node({.type = "ConvInteger", .attributes = attributes()}, {x, w, Tensor::scalar<uint8_t>(17)})[0]
                .tensor()
                .to_double(),
            want);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, Convolution,
    ::testing::Values(Case{5, 7, 1, {30}, {3}, {2}, {1}, {1, 1}},
                      Case{4, 6, 2, {9, 11}, {3, 2}, {2, 1}, {1, 2}, {1, 0, 2, 1}},
                      Case{6, 6, 6, {8, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}},
                      Case{3, 5, 1, {7, 6}, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}},
                      Case{2, 3, 1, {4, 5, 6}, {2, 3, 2}, {1, 2, 1}, {1, 1, 2}, {0, 1, 1, 1, 0, 1}}));

}  // namespace
}  // namespace attune::testing
