// Access to elements by width (for kernels that only move them) and to small integer tensors.
#pragma once

#include <cstdint>
#include <string>

#include "graph/tensor.h"
#include "ops/kernel.h"

namespace attune {

struct Bytes16 {
  uint64_t words[2];
};

// Calls f.template operator()<T>() with a type of the width of `type`'s elements (std::string for strings).
// Throws Error(kUnsupported) for types narrower than a byte.
template <class F>
decltype(auto) dispatch_width(DataType type, F&& f) {
  switch (element_bits(type)) {
    case 8:
      return f.template operator()<uint8_t>();
    case 16:
      return f.template operator()<uint16_t>();
    case 32:
      return f.template operator()<uint32_t>();
    case 64:
      return f.template operator()<uint64_t>();
    case 128:
      return f.template operator()<Bytes16>();
    default:
      if (type != DataType::kString) fail_type(type);
      return f.template operator()<std::string>();
  }
}

// The elements of a tensor as T, which has their width.
template <class T>
const T* elements(const Tensor& tensor) {
  if constexpr (std::is_same_v<T, std::string>) {
    return tensor.strings().data();
  } else {
    return reinterpret_cast<const T*>(tensor.raw());
  }
}
template <class T>
T* mutable_elements(Tensor& tensor) {
  if constexpr (std::is_same_v<T, std::string>) {
    return tensor.mutable_strings().data();
  } else {
    return reinterpret_cast<T*>(tensor.mutable_raw());
  }
}

// The integers of input i (int32 or int64) without allocation, in a Shape that holds them as they are (they may be
// negative). Throws Error(kInvalidArgument) for another type, Error(kLimit) for more than Shape::kMaxRank.
Shape read_integers(const KernelCall& call, size_t input);
// The only element of input i (any integer type).
int64_t read_integer(const KernelCall& call, size_t input);
// The only element of a numeric tensor.
double read_number(const Tensor& tensor, size_t input);

// Index tensors: element i of an int32 or int64 tensor.
class IndexReader {
 public:
  IndexReader(const Tensor& tensor, size_t input);
  int64_t operator[](int64_t i) const {
    return wide_ ? static_cast<const int64_t*>(data_)[i] : static_cast<const int32_t*>(data_)[i];
  }

 private:
  const void* data_;
  bool wide_;
};

[[noreturn]] void fail_index(int64_t index, int64_t size);
// `index` in [-size, size) as an index in [0, size). Throws Error(kInvalidArgument) that names both otherwise.
inline int64_t checked_index(int64_t index, int64_t size) {
  if (index < -size || index >= size) fail_index(index, size);
  return index < 0 ? index + size : index;
}

// a * b, for sizes. Throws Error(kLimit) on overflow.
int64_t checked_multiply(int64_t a, int64_t b);

// The axes of `ints` normalised to [0, rank). Throws Error(kInvalidArgument) for one outside or given twice.
Shape normalize_axes(const Shape& axes, size_t rank);

// Input i as output memory if nobody else needs it and it is worth it; else a new tensor. The tensor that is returned
// has the type and shape given; `taken` keeps the input alive and readable meanwhile.
Tensor reuse_or_allocate(KernelCall& call, size_t input, DataType type, const Shape& shape, Tensor& taken);

// Input i to write into: its own memory if nobody else needs it, else a copy.
Tensor take_or_copy(KernelCall& call, size_t input);

}  // namespace attune
