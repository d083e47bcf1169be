#include "ops/support/matrix_product.h"

#include <algorithm>

#include "ops/support/parallel_items.h"

namespace attune {

void MatrixProduct::run(int64_t m, int64_t n, int64_t k, const float* a, const float* b, float* c, BufferPool* pool,
                        bool transposed_a) const {
  const MatrixView x = transposed_a ? MatrixView{a, {k, m}, {m, 1}}.transposed() : MatrixView{a, {m, k}, {k, 1}};
  product_.run(x, {b, {k, n}, {n, 1}}, c, pool);
}

void MatrixProduct::run(int64_t m, int64_t n, int64_t k, const double* a, const double* b, double* c, BufferPool*,
                        bool transposed_a) const {
  parallel_items(m, n * k, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::fill_n(c + i * n, n, 0.0);
      for (int64_t p = 0; p < k; ++p) {
        const double x = transposed_a ? a[p * m + i] : a[i * k + p];
        for (int64_t j = 0; j < n; ++j) c[i * n + j] += x * b[p * n + j];
      }
    }
  });
}

}  // namespace attune
