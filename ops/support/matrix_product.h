// A plain product of dense matrices of float or double, for kernels that are templates of the type.
#pragma once

#include "ops/support/product.h"

namespace attune {

class MatrixProduct {
 public:
  // c (m, n) = a (m, k) b (k, n), all row-major and contiguous; a is (k, m) if `transposed_a`.
  void run(int64_t m, int64_t n, int64_t k, const float* a, const float* b, float* c, BufferPool* pool,
           bool transposed_a = false) const;
  void run(int64_t m, int64_t n, int64_t k, const double* a, const double* b, double* c, BufferPool* pool,
           bool transposed_a = false) const;
  std::string implementation() const { return product_.implementation(); }

 private:
  FloatProduct product_;
};

}  // namespace attune
