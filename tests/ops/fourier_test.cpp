#include <numbers>

#include "tests/ops/naive.h"

namespace attune::testing {
namespace {

// Sum of x[n] exp(sign 2 pi i k n / length), as (real, imaginary)[part].
double transform(const std::vector<std::array<double, 2>>& x, int64_t k, size_t length, double sign, size_t part) {
  double re = 0, im = 0;
  for (size_t n = 0; n < std::min(x.size(), length); ++n) {
    const double angle =
        sign * 2 * std::numbers::pi * static_cast<double>(k) * static_cast<double>(n) / static_cast<double>(length);
    re += x[n][0] * std::cos(angle) - x[n][1] * std::sin(angle);
    im += x[n][0] * std::sin(angle) + x[n][1] * std::cos(angle);
  }
  return part == 0 ? re : im;
}

TEST(Dft, EveryLengthAxisAndDirection) {
  for (const int64_t length : {1, 2, 8, 5, 6, 13})
    for (const int64_t components : {1, 2})
      for (const bool inverse : {false, true}) {
        const Tensor x = random_tensor({2, length, 3, components}, 7);
        const Tensor want = tabulate(DataType::kFloat, {2, length, 3, 2}, [&](const Shape& i) {
          std::vector<std::array<double, 2>> line;
          for (int64_t n = 0; n < length; ++n)
            line.push_back({at(x, {i[0], n, i[2], 0}), components == 2 ? at(x, {i[0], n, i[2], 1}) : 0});
          const double factor = inverse ? 1.0 / static_cast<double>(length) : 1;
          return factor *
                 transform(line, i[1], static_cast<size_t>(length), inverse ? 1 : -1, static_cast<size_t>(i[3]));
        });
        const Call call{"DFT", {{"inverse", int64_t{inverse}}}, 20};
        EXPECT_EQ(difference(run(call, {x, Tensor(), Tensor::scalar<int64_t>(1)}), want, 1e-5), "") << length;
        const Call old{"DFT", {{"inverse", int64_t{inverse}}, {"axis", int64_t{1}}}, 17};
        EXPECT_EQ(difference(run(old, {x}), want, 1e-5), "") << length;
      }
}

TEST(Dft, OneSidedPaddedAndBack) {
  for (const int64_t length : {6, 7, 16}) {
    const Tensor x = random_tensor({2, 6, 1}, 3), size = Tensor::scalar(length);
    const Tensor half = run({"DFT", {{"onesided", int64_t{1}}}, 20}, {x, size});
    const Tensor full = run({"DFT", {}, 20}, {x, size});
    EXPECT_EQ(half.shape(), (Shape{2, length / 2 + 1, 2}));
    EXPECT_EQ(difference(half, run({"Slice"}, {full, ints({0}), ints({length / 2 + 1}), ints({1})}), 1e-6), "");
    const Tensor back = run({"DFT", {{"onesided", int64_t{1}}, {"inverse", int64_t{1}}}, 20}, {half, size});
    EXPECT_EQ(back.shape(), (Shape{2, length, 1}));
    EXPECT_EQ(difference(run({"Slice"}, {back, ints({0}), ints({6}), ints({1})}), x, 1e-5), "");
  }
  EXPECT_NE(failure({"DFT", {}, 20}, {floats({3}, {1, 2, 3})}), "");
  EXPECT_NE(failure({"DFT", {}, 20}, {floats({1, 3, 1}, {1, 2, 3}), Tensor::scalar<int64_t>(0)}), "");
  EXPECT_NE(failure({"DFT", {}, 20}, {floats({1, 3, 1}, {1, 2, 3}), Tensor(), Tensor::scalar<int64_t>(2)}), "");
}

TEST(Stft, IsTheTransformOfEachFrame) {
  const Tensor signal = random_tensor({2, 20, 1}, 9), window = floats({6}, {0.5, 1, 2, 2, 1, 0.5});
  const Tensor got = run({"STFT"}, {signal, Tensor::scalar<int64_t>(4), window});
  EXPECT_EQ(got.shape(), (Shape{2, 4, 4, 2}));
  const Tensor want = tabulate(DataType::kFloat, got.shape(), [&](const Shape& i) {
    std::vector<std::array<double, 2>> frame;
    for (int64_t n = 0; n < 6; ++n) frame.push_back({at(signal, {i[0], i[1] * 4 + n, 0}) * at(window, {n}), 0});
    return transform(frame, i[2], 6, -1, static_cast<size_t>(i[3]));
  });
  EXPECT_EQ(difference(got, want, 1e-5), "");
  const Tensor whole = run({"STFT", {{"onesided", int64_t{0}}}},
                           {signal, Tensor::scalar<int64_t>(5), Tensor(), Tensor::scalar<int64_t>(10)});
  EXPECT_EQ(whole.shape(), (Shape{2, 3, 10, 2}));
  EXPECT_NE(failure({"STFT"}, {signal, Tensor::scalar<int64_t>(0), window}), "");
  EXPECT_NE(failure({"STFT"}, {signal, Tensor::scalar<int64_t>(1), Tensor(), Tensor::scalar<int64_t>(21)}), "");
}

TEST(MelWeightMatrix, TrianglesWithPeaksOfOne) {
  const auto number = [](int64_t x) { return Tensor::scalar(x); };
  const Tensor got =
      run({"MelWeightMatrix"}, {number(8), number(64), number(8192), Tensor::scalar(0.0f), Tensor::scalar(4096.0f)});
  EXPECT_EQ(got.shape(), (Shape{33, 8}));
  for (int64_t band = 0; band < 8; ++band) {
    double peak = 0;
    for (int64_t bin = 0; bin < 33; ++bin) peak = std::max(peak, at(got, {bin, band}));
    EXPECT_EQ(peak, 1) << band;
  }
  EXPECT_NE(
      failure({"MelWeightMatrix"}, {number(8), number(64), number(100), Tensor::scalar(0.0f), Tensor::scalar(4096.0f)}),
      "");
}

}  // namespace
}  // namespace attune::testing
