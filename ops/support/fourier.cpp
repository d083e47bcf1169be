#include "ops/support/fourier.h"

#include <bit>
#include <cmath>
#include <numbers>

namespace attune {
namespace {

using Complex = std::complex<double>;

// Cooley and Tukey's transform in place; the size is a power of two.
void radix2(std::vector<Complex>& x, bool inverse) {
  const size_t n = x.size();
  for (size_t i = 1, j = 0; i < n; ++i) {  // bit reversal
    size_t bit = n >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) std::swap(x[i], x[j]);
  }
  const double turn = (inverse ? 2 : -2) * std::numbers::pi;
  for (size_t length = 2; length <= n; length *= 2) {
    const size_t half = length / 2;
    for (size_t k = 0; k < half; ++k) {
      const Complex twiddle = std::polar(1.0, turn * static_cast<double>(k) / static_cast<double>(length));
      for (size_t i = k; i < n; i += length) {
        const Complex even = x[i], odd = x[i + half] * twiddle;
        x[i] = even + odd;
        x[i + half] = even - odd;
      }
    }
  }
}

// k n = (k^2 + n^2 - (k - n)^2) / 2 turns the transform into a convolution with exp(i pi n^2 / N).
void bluestein(std::vector<Complex>& x, bool inverse) {
  const size_t n = x.size(), size = std::bit_ceil(2 * n - 1);
  std::vector<Complex> chirp(n), a(size), b(size);
  for (size_t k = 0; k < n; ++k) {
    const auto square = static_cast<double>(k * k % (2 * n));
    chirp[k] = std::polar(1.0, (inverse ? 1 : -1) * std::numbers::pi * square / static_cast<double>(n));
    a[k] = x[k] * chirp[k];
    b[k] = std::conj(chirp[k]);
    if (k > 0) b[size - k] = b[k];
  }
  radix2(a, false);
  radix2(b, false);
  for (size_t k = 0; k < size; ++k) a[k] *= b[k];
  radix2(a, true);
  for (size_t k = 0; k < n; ++k) x[k] = a[k] * chirp[k] / static_cast<double>(size);
}

}  // namespace

void fourier_transform(std::vector<Complex>& x, bool inverse) {
  if (x.size() < 2) return;
  if (std::has_single_bit(x.size())) {
    radix2(x, inverse);
  } else {
    bluestein(x, inverse);
  }
}

}  // namespace attune
