// Products of matrices that are no constants: batched, broadcasting, strided.
#pragma once

#include <string>

#include "graph/tensor.h"
#include "ops/support/dnnl.h"

namespace attune {

// A matrix, or a batch of them: the last two axes are the matrix. Strides in elements.
struct MatrixView {
  const float* data = nullptr;
  Shape sizes;
  Shape strides;

  // Of a float tensor of rank >= 2, contiguous or strided.
  static MatrixView of(const Tensor& tensor);
  MatrixView transposed() const;  // the last two axes swapped
};

// The batch sizes (all but the last two axes) that two operands broadcast to.
Shape broadcast_batch(const Shape& a, const Shape& b);

// Float products. Keeps oneDNN's primitives by shape; thread-safe.
class FloatProduct {
 public:
  // c, contiguous, of shape broadcast_batch(a, b) + (M, N), = a (.., M, K) b (.., K, N).
  // Throws Error(kInvalidArgument) where inner sizes or batch sizes don't agree.
  void run(MatrixView a, MatrixView b, float* c, BufferPool* pool) const;
  std::string implementation() const;

 private:
  mutable onednn::MatMulCache primitives_;
};

// The same for contiguous tensors of double and of integers (which wrap). `c` has the shape above.
// Throws Error(kUnsupported) for other types.
void multiply_plain(const Tensor& a, const Tensor& b, Tensor& c);

}  // namespace attune
