// Discrete Fourier transforms of any length.
#pragma once

#include <complex>
#include <vector>

namespace attune {

// x[k] becomes the sum over n of x[n] exp(-+ 2 pi i k n / N) (+ if `inverse`), without a factor. O(N log N): radix 2,
// or Bluestein's convolution for lengths that are no power of two.
void fourier_transform(std::vector<std::complex<double>>& x, bool inverse);

}  // namespace attune
