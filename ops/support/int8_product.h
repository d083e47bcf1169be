// Products of 8-bit integers, exact in 32 bits.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/tensor.h"
#include "ops/support/dnnl.h"

namespace attune {

// The right operand (K, N) of int8 or uint8, kept as int8 (N, K): an unsigned one is shifted by 128.
struct Int8Weights {
  int64_t inner = 0, columns = 0;
  int shift = 0;              // to be added to get the original values: 0 or 128
  BufferRef values;           // int8 (columns, padded_inner), zero padded
  int64_t padded_inner = 0;   // a multiple of 64
  std::vector<int32_t> sums;  // of each column, of the stored values

  // `data`: (K, N) row-major, or (N, K) if `transposed`.
  static Int8Weights pack(const std::byte* data, DataType type, int64_t inner, int64_t columns,
                          bool transposed = false);
};

// y (rows, N) int32 = sum over k of (x - x_zero) (w - w_zero). x is uint8 or int8 (rows, K), contiguous; x_zero has one
// value, or one for each row; w_zero one value, or one for each column. Sums wrap as int32 does. Thread-safe.
class Int8Product {
 public:
  void run(const std::byte* x, DataType type, int64_t rows, const std::vector<int32_t>& x_zero, const Int8Weights& w,
           const std::vector<int32_t>& w_zero, int32_t* y, BufferPool* pool) const;
  std::string implementation() const;

 private:
  mutable onednn::MatMulCache primitives_;
};

}  // namespace attune
