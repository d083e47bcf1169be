// Exact dot products of uint8 and int8 vectors.
#pragma once

#include <cstdint>

namespace attune {

// y[r * y_row + c] = sum of x[r * x_row + k] * w[c * w_row + k], r < rows, c < columns, k < n; n is a multiple of 64.
struct Int8Dots {
  int64_t rows = 0, columns = 0, n = 0;
  const uint8_t* x = nullptr;
  int64_t x_row = 0;
  const int8_t* w = nullptr;
  int64_t w_row = 0;
  int32_t* y = nullptr;
  int64_t y_row = 0;
};
void int8_dots(const Int8Dots& d);

}  // namespace attune
