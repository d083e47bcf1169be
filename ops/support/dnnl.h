// oneDNN behind types of our own: only dnnl*.cpp include its headers and catch dnnl::error (it becomes Error(kInternal)
// with oneDNN's message).
//
// Primitives are immutable and shared; scratch memory comes from the caller's pool. A primitive that oneDNN would run
// with its reference implementation is refused: make() gives null, and the caller has another way.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/buffer.h"
#include "graph/data_type.h"
#include "graph/shape.h"
#include "ops/support/lru_cache.h"

namespace attune::onednn {

// "3.2.0".
std::string version();
// True if u8 x s8 products use instructions that add into 32 bits at once (VNNI). Without them oneDNN adds pairs in
// 16 bits, which saturates.
bool has_exact_int8();

// A strided operand; sizes and strides in elements.
struct Operand {
  DataType type = DataType::kFloat;
  Shape sizes;
  Shape strides;
  friend bool operator==(const Operand&, const Operand&) = default;
};
// Row-major strides.
Shape dense_strides(const Shape& sizes);

// c (.., M, N) = a (.., M, K) b (.., K, N). Equal ranks of at least 2; batch sizes of a and b are c's or 1.
struct MatMulSpec {
  Operand a, b, c;
  int threads = 0;  // those that OpenMP gives now; part of the key
  friend bool operator==(const MatMulSpec&, const MatMulSpec&) = default;
};

class MatMul {
 public:
  static std::shared_ptr<const MatMul> make(const MatMulSpec& spec);
  ~MatMul();
  void run(const void* a, const void* b, void* c, BufferPool* pool) const;
  const std::string& implementation() const;

 private:
  struct Impl;
  explicit MatMul(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

using MatMulCache = LruCache<MatMulSpec, MatMul>;
// The primitive of `spec` from `cache`; null if oneDNN only has its reference implementation.
std::shared_ptr<const MatMul> find_matmul(MatMulCache& cache, MatMulSpec spec);

}  // namespace attune::onednn
