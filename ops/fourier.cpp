// DFT, STFT and MelWeightMatrix. Computed in double.
#include <fmt/format.h>

#include <cmath>
#include <complex>

#include "ops/op.h"
#include "ops/support/cast.h"
#include "ops/support/elements.h"
#include "ops/support/fourier.h"
#include "ops/support/prepare.h"

namespace attune {
namespace {

using Complex = std::complex<double>;

int64_t positive(int64_t value, size_t input) {
  if (value < 1) fail_input(input, "a number above 0", fmt::format("{}", value));
  return value;
}

// Whether a tensor holds real (1) or complex (2) numbers, from its last axis.
int64_t components_of(const Tensor& t, size_t least_rank) {
  if (t.rank() < least_rank || (t.shape().back() != 1 && t.shape().back() != 2))
    fail_input(0, "a last axis of 1 or 2 (real, imaginary)", t.shape().to_string());
  return t.shape().back();
}

class DftKernel final : public Kernel {
 public:
  explicit DftKernel(const KernelContext& context)
      : inverse_(context.node().attr_int("inverse", 0) != 0),
        one_sided_(context.node().attr_int("onesided", 0) != 0),
        axis_(context.opset() < 20 ? context.node().attr_int("axis", 1) : -2) {}

  void run(KernelCall& call) const override {
    const Tensor& in = call.input(0);
    const int64_t components = components_of(in, 2);
    const size_t axis = normalize_axis(call.has(2) ? read_integer(call, 2) : axis_, in.rank());
    if (axis == in.rank() - 1) throw Error(Error::Kind::kInvalidArgument, "axis: the last one holds the components");
    const int64_t given = in.dim(axis);
    const bool real_result = inverse_ && one_sided_;
    const int64_t natural = real_result ? 2 * (given - 1) : given;
    const int64_t length = positive(call.has(1) ? read_integer(call, 1) : natural, 1);
    Shape shape = in.shape();
    shape[axis] = one_sided_ && !inverse_ ? length / 2 + 1 : length;
    shape.back() = real_result ? 1 : 2;
    const DataType type = in.type();
    Tensor result = Tensor::allocate(DataType::kDouble, shape, call.pool());
    const Tensor signal = cast(in, DataType::kDouble, call.pool());
    const int64_t inner = shape.count(axis + 1, shape.rank() - 1), lines = shape.count(0, axis) * inner;
    std::vector<Complex> line;
    for (int64_t i = 0; i < lines; ++i) {
      const double* x = signal.data<double>() + (i / inner * given * inner + i % inner) * components;
      load(x, std::min(given, length), inner * components, components, static_cast<size_t>(length), line);
      if (real_result) complete(line, given);
      fourier_transform(line, inverse_);
      const double factor = inverse_ ? 1 / static_cast<double>(length) : 1;
      const int64_t out = shape.back();
      double* y = result.mutable_data<double>() + (i / inner * shape[axis] * inner + i % inner) * out;
      for (int64_t k = 0; k < shape[axis]; ++k, y += inner * out) {
        const Complex value = line[static_cast<size_t>(k)] * factor;
        y[0] = value.real();
        if (out == 2) y[1] = value.imag();
      }
    }
    call.set_output(0, cast(result, type, call.pool()));
  }

 private:
  // n values, followed by zeros up to `length`.
  static void load(const double* x, int64_t n, int64_t stride, int64_t components, size_t length,
                   std::vector<Complex>& line) {
    line.assign(length, Complex());
    for (int64_t k = 0; k < n; ++k, x += stride)
      line[static_cast<size_t>(k)] = Complex(x[0], components == 2 ? x[1] : 0);
  }
  // The second half of a spectrum of a real signal: X[N - k] is the conjugate of X[k].
  static void complete(std::vector<Complex>& line, int64_t given) {
    const size_t n = line.size();
    for (size_t k = n / 2 + 1; k < n; ++k)
      line[k] = n - k < static_cast<size_t>(given) ? std::conj(line[n - k]) : Complex();
  }

  bool inverse_, one_sided_;
  int64_t axis_;
};

class StftKernel final : public Kernel {
 public:
  explicit StftKernel(const KernelContext& context) : one_sided_(context.node().attr_int("onesided", 1) != 0) {}

  void run(KernelCall& call) const override {
    const Tensor& in = call.input(0);
    expect_rank(in, 0, 3);
    const int64_t components = components_of(in, 3), batch = in.dim(0), samples = in.dim(1);
    const int64_t step = positive(read_integer(call, 1), 1);
    const Tensor* window = call.optional_input(2);
    int64_t length = window ? window->count() : samples;
    if (call.has(3)) length = read_integer(call, 3);
    positive(length, 3);
    if (window && window->count() != length)
      fail_input(2, fmt::format("{} values", length), window->shape().to_string());
    if (length > samples) fail_input(3, fmt::format("at most {}", samples), fmt::format("{}", length));
    const int64_t frames = (samples - length) / step + 1;
    const int64_t bins = one_sided_ && components == 1 ? length / 2 + 1 : length;

    const DataType type = in.type();
    Tensor result = Tensor::allocate(DataType::kDouble, {batch, frames, bins, 2}, call.pool());
    const Tensor signal = cast(in, DataType::kDouble, call.pool());
    const Tensor weights = window ? cast(*window, DataType::kDouble, call.pool()) : Tensor();
    const double* w = window ? weights.data<double>() : nullptr;
    double* y = result.mutable_data<double>();
    std::vector<Complex> frame(static_cast<size_t>(length));
    for (int64_t i = 0; i < batch * frames; ++i) {
      const double* x = signal.data<double>() + (i / frames * samples + i % frames * step) * components;
      frame.resize(static_cast<size_t>(length));
      for (int64_t k = 0; k < length; ++k) {
        const Complex value(x[k * components], components == 2 ? x[k * 2 + 1] : 0);
        frame[static_cast<size_t>(k)] = w ? value * w[k] : value;
      }
      fourier_transform(frame, false);
      for (int64_t k = 0; k < bins; ++k) {
        *y++ = frame[static_cast<size_t>(k)].real();
        *y++ = frame[static_cast<size_t>(k)].imag();
      }
    }
    call.set_output(0, cast(result, type, call.pool()));
  }

 private:
  bool one_sided_;
};

// Triangles with peaks of 1, at equal distances on the mel scale 2595 log10(1 + f / 700).
class MelWeightKernel final : public Kernel {
 public:
  explicit MelWeightKernel(const KernelContext& context)
      : type_(static_cast<DataType>(context.node().attr_int("output_datatype", 1))) {}

  void run(KernelCall& call) const override {
    const int64_t bands = positive(read_integer(call, 0), 0), length = positive(read_integer(call, 1), 1);
    const int64_t rate = positive(read_integer(call, 2), 2), bins = length / 2 + 1;
    const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
    const double low = mel(read_number(call.input(3), 3)), high = mel(read_number(call.input(4), 4));
    Tensor result = Tensor::allocate(DataType::kDouble, {bins, bands}, call.pool());
    double* y = result.mutable_data<double>();
    std::fill_n(y, result.count(), 0.0);
    // The bins of the edges: bands + 2 points of which neighbours make a triangle.
    const auto edge = [&](int64_t i) {
      const double at = low + static_cast<double>(i) * (high - low) / static_cast<double>(bands + 2);
      const double hertz = 700 * (std::pow(10, at / 2595) - 1);
      const double bin = std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate));
      if (!(bin >= 0 && bin < static_cast<double>(bins)))
        fail_input(4, "frequencies up to half the sample rate", fmt::format("{}", hertz));
      return static_cast<int64_t>(bin);
    };
    for (int64_t band = 0; band < bands; ++band) {
      const int64_t left = edge(band), centre = edge(band + 1), right = edge(band + 2);
      const auto slope = [](int64_t a, int64_t b) { return static_cast<double>(a) / static_cast<double>(b); };
      for (int64_t j = left; j < centre; ++j) y[j * bands + band] = slope(j - left, centre - left);
      y[centre * bands + band] = 1;
      for (int64_t j = centre; j < right; ++j) y[j * bands + band] = slope(right - j, right - centre);
    }
    call.set_output(0, cast(result, type_, call.pool()));
  }

 private:
  DataType type_;
};

}  // namespace

std::vector<OpDef> ops_in_fourier() {
  return {{"", "DFT", 17, prepare<DftKernel>},
          {"", "STFT", 17, prepare<StftKernel>},
          {"", "MelWeightMatrix", 17, prepare<MelWeightKernel>}};
}

}  // namespace attune
