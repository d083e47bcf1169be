// Products of small or thin float matrices, for which a oneDNN primitive would cost more than the product.
#pragma once

#include <cstdint>

namespace attune {

// c (M, N) = a (M, K) b (K, N). Rows of a and c are contiguous; of b one stride is 1.
struct SmallProduct {
  int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  int64_t a_row = 0;
  const float* b = nullptr;
  int64_t b_k = 0, b_n = 0;
  float* c = nullptr;
  int64_t c_row = 0;
};

// Columns [begin, end) of p.c. One thread.
void small_product(const SmallProduct& p, int64_t begin, int64_t end);

}  // namespace attune
