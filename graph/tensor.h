// Tensors and the other things an ONNX value can hold at run time.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/buffer.h"
#include "graph/data_type.h"
#include "graph/error.h"
#include "graph/shape.h"

namespace attune {

// A dense tensor. Copying shares the memory. Contiguous (row major) unless it is a view with
// strides, which only kernels that say so are given.
class Tensor {
 public:
  Tensor() = default;  // no tensor: type() is kUndefined

  // Uninitialised memory from the heap, or from `pool`. Strings are empty strings.
  // Throws Error(kLimit) if the memory can't be had or its size overflows.
  static Tensor allocate(DataType type, const Shape& shape, BufferPool* pool = nullptr);
  // A tensor over `bytes` of memory at `offset` of `buffer`. Throws Error(kInvalidArgument) if it is too small.
  static Tensor from_buffer(DataType type, const Shape& shape, BufferRef buffer, size_t offset = 0);
  template <class T>
  static Tensor from(const Shape& shape, std::span<const T> values);
  template <class T>
  static Tensor from(const Shape& shape, std::initializer_list<T> values) {
    return from<T>(shape, std::span<const T>(values.begin(), values.size()));
  }
  template <class T>
  static Tensor scalar(T value) {
    return from<T>({}, std::span<const T>(&value, 1));
  }
  static Tensor from_strings(const Shape& shape, std::vector<std::string> values);
  // A view with its own strides (in elements). `data` must lie in `buffer`.
  static Tensor strided_view(DataType type, const Shape& shape, const Shape& strides, BufferRef buffer,
                             std::byte* data);

  bool defined() const noexcept { return type_ != DataType::kUndefined; }
  DataType type() const noexcept { return type_; }
  const Shape& shape() const noexcept { return shape_; }
  size_t rank() const noexcept { return shape_.rank(); }
  int64_t dim(size_t axis) const noexcept { return shape_[axis]; }
  int64_t count() const noexcept { return shape_.count(); }
  size_t bytes() const noexcept { return storage_bytes(type_, static_cast<size_t>(count())); }

  const std::byte* raw() const noexcept { return data_; }
  std::byte* mutable_raw() noexcept { return data_; }
  // Throws Error(kInternal) if T isn't the element type.
  template <class T>
  const T* data() const {
    check_type(kDataTypeOf<T>);
    return reinterpret_cast<const T*>(data_);
  }
  template <class T>
  T* mutable_data() {
    check_type(kDataTypeOf<T>);
    return reinterpret_cast<T*>(data_);
  }
  template <class T>
  std::span<const T> values() const {
    return {data<T>(), static_cast<size_t>(count())};
  }
  const std::vector<std::string>& strings() const;
  std::vector<std::string>& mutable_strings();

  bool contiguous() const noexcept { return !strided_; }
  const Shape& strides() const noexcept { return strides_; }  // only if !contiguous()
  Tensor to_contiguous(BufferPool* pool = nullptr) const;     // itself if it is
  const BufferRef& buffer() const noexcept { return buffer_; }
  bool unique() const noexcept { return buffer_.unique(); }

  // The same elements under another shape of as many; contiguous tensors only.
  // Throws Error(kInvalidArgument) where the counts differ.
  Tensor reshaped(const Shape& shape) const;
  Tensor clone(BufferPool* pool = nullptr) const;  // own memory, contiguous

  // Integer tensors of any width (and bool) as int64. Throws Error(kInvalidArgument) for other types.
  std::vector<int64_t> to_int64() const;
  // Floating-point numbers of 16 bits and more, and what to_int64() takes, as double.
  std::vector<double> to_double() const;

 private:
  void check_type(DataType wanted) const;

  DataType type_ = DataType::kUndefined;
  bool strided_ = false;
  Shape shape_;
  Shape strides_;
  BufferRef buffer_;
  std::byte* data_ = nullptr;
  std::shared_ptr<std::vector<std::string>> strings_;
};

template <class T>
Tensor Tensor::from(const Shape& shape, std::span<const T> values) {
  if (static_cast<size_t>(shape.count()) != values.size())
    throw Error(Error::Kind::kInternal,
                "shape " + shape.to_string() + " for " + std::to_string(values.size()) + " values");
  Tensor t = allocate(kDataTypeOf<T>, shape);
  std::copy(values.begin(), values.end(), t.mutable_data<T>());
  return t;
}

// What a value holds at run time: nothing, a tensor, a sequence, or an optional.
class Datum {
 public:
  enum class Kind { kNone, kTensor, kSequence, kOptional };

  Datum() = default;
  Datum(Tensor tensor) : kind_(tensor.defined() ? Kind::kTensor : Kind::kNone), tensor_(std::move(tensor)) {}
  static Datum sequence(std::vector<Datum> elements);
  static Datum optional();  // empty
  static Datum optional(Datum element);

  Kind kind() const noexcept { return kind_; }
  bool defined() const noexcept { return kind_ != Kind::kNone; }
  // Each throws Error(kInvalidArgument) if it is another kind.
  const Tensor& tensor() const;
  Tensor& tensor();
  const std::vector<Datum>& elements() const;  // of a sequence; of an optional: none or one
  std::vector<Datum>& mutable_elements();      // copies first if shared

 private:
  Kind kind_ = Kind::kNone;
  Tensor tensor_;
  std::shared_ptr<std::vector<Datum>> elements_;
};

}  // namespace attune
