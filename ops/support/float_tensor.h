// Tensors of narrow floats seen as float32, for kernels that compute in float32.
#pragma once

#include "ops/kernel.h"

namespace attune {

// Calls f.template operator()<T>() with float for float, float16 and bfloat16 tensors, double for double.
// Throws Error(kUnsupported) for other types.
template <class F>
void dispatch_float(DataType type, F&& f) {
  switch (type) {
    case DataType::kFloat:
    case DataType::kFloat16:
    case DataType::kBFloat16:
      return f.template operator()<float>();
    case DataType::kDouble:
      return f.template operator()<double>();
    default:
      fail_type(type);
  }
}

// `count` floats of `type` (float16, bfloat16, float, double) to and from float32.
void widen(DataType type, const std::byte* from, float* to, int64_t count);
void narrow(DataType type, const float* from, std::byte* to, int64_t count);

// A floating-point tensor's elements as T (float or double): the tensor's own memory, or a converted copy.
template <class T>
class FloatView {
 public:
  FloatView() = default;  // null
  // Throws Error(kUnsupported) if it isn't a float tensor.
  FloatView(const Tensor& tensor, BufferPool* pool);
  FloatView(const Tensor* tensor, BufferPool* pool) : FloatView(tensor ? FloatView(*tensor, pool) : FloatView()) {}
  const T* data() const { return data_; }
  explicit operator bool() const { return data_ != nullptr; }
  const T& operator[](int64_t i) const { return data_[i]; }

 private:
  Tensor owner_;
  const T* data_ = nullptr;
};

// An output of any float type that a kernel writes as T; store() converts.
template <class T>
class FloatResult {
 public:
  FloatResult() = default;  // null: an output nobody wants
  FloatResult(KernelCall& call, size_t output, DataType type, const Shape& shape);
  T* data() { return data_; }
  explicit operator bool() const { return data_ != nullptr; }
  // Must be called once, after the last write.
  void store(KernelCall& call);

 private:
  size_t output_ = 0;
  DataType type_ = DataType::kUndefined;
  Shape shape_;
  bool direct_ = false;  // written where it stays
  Tensor wide_;
  T* data_ = nullptr;
};

// A kernel that computes in float or double, as the type of its first input asks: Derived has
// template <class T> void compute(KernelCall&) const.
template <class Derived>
class FloatKernel : public Kernel {
 public:
  void run(KernelCall& call) const final {
    dispatch_float(call.input(0).type(),
                   [&]<class T>() { static_cast<const Derived&>(*this).template compute<T>(call); });
  }
};

// An input and an output of the same element type and number of elements.
struct InputAndOutput {
  Tensor input, output;  // may share memory: elements are read before they are written
};
// Takes input `i` (contiguous). The output is its own memory if nobody else needs it, else new. The caller still has
// to set the output.
InputAndOutput take_in_place(KernelCall& call, size_t i);

}  // namespace attune
