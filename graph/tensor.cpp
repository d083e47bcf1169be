#include "graph/tensor.h"

#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>

namespace attune {
namespace {

// Bytes of a tensor; throws where a size is negative or the product overflows.
size_t checked_bytes(DataType type, const Shape& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) {
    if (size < 0)
      throw Error(Error::Kind::kInvalidArgument, fmt::format("negative size in shape {}", shape.to_string()));
    if (__builtin_mul_overflow(count, size, &count))
      throw Error(Error::Kind::kLimit, fmt::format("shape {} has too many elements", shape.to_string()));
  }
  if (count > std::numeric_limits<int64_t>::max() / 16)
    throw Error(Error::Kind::kLimit, fmt::format("shape {} has too many elements", shape.to_string()));
  return storage_bytes(type, static_cast<size_t>(count));
}

std::shared_ptr<std::vector<std::string>> allocate_strings(const Shape& shape) {
  try {
    return std::make_shared<std::vector<std::string>>(static_cast<size_t>(shape.count()));
  } catch (const std::length_error&) {  // more than a vector can have
  } catch (const std::bad_alloc&) {
  }
  throw Error(Error::Kind::kLimit, fmt::format("can't allocate {} strings", shape.count()));
}

void copy_strided(const Tensor& from, size_t axis, const std::byte* src, std::byte*& dst, size_t element) {
  const auto size = from.dim(axis);
  const auto stride = from.strides()[axis];
  if (axis + 1 == from.rank() && stride == 1) {
    std::memcpy(dst, src, static_cast<size_t>(size) * element);
    dst += static_cast<size_t>(size) * element;
    return;
  }
  for (int64_t i = 0; i < size; ++i) {
    const std::byte* row = src + static_cast<size_t>(i * stride) * element;
    if (axis + 1 == from.rank()) {
      std::memcpy(dst, row, element);
      dst += element;
    } else {
      copy_strided(from, axis + 1, row, dst, element);
    }
  }
}

template <class T, class Out>
void convert(const Tensor& t, std::vector<Out>& out) {
  const T* p = t.data<T>();
  for (size_t i = 0; i < out.size(); ++i) {
    if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
      out[i] = static_cast<Out>(static_cast<float>(p[i]));
    } else {
      out[i] = static_cast<Out>(p[i]);  // NOLINT(bugprone-signed-char-misuse): bytes are numbers
    }
  }
}

// Integers of 2 or 4 bits, packed from the low bits on.
void unpack(const Tensor& t, std::vector<int64_t>& out) {
  const auto bits = static_cast<unsigned>(element_bits(t.type()));
  const auto sign = is_signed_integer(t.type()) ? int64_t{1} << (bits - 1) : 0;
  for (size_t i = 0; i < out.size(); ++i) {
    const auto byte = std::to_integer<unsigned>(t.raw()[i * bits / 8]);
    const auto code = static_cast<int64_t>((byte >> (i * bits % 8)) & ((1u << bits) - 1u));
    out[i] = (code ^ sign) - sign;
  }
}

}  // namespace

Tensor Tensor::allocate(DataType type, const Shape& shape, BufferPool* pool) {
  Tensor t;
  t.type_ = type;
  t.shape_ = shape;
  const size_t bytes = checked_bytes(type, shape);
  if (type == DataType::kString) {
    t.strings_ = allocate_strings(shape);
  } else {
    t.buffer_ = pool ? pool->acquire(bytes) : BufferRef::allocate(bytes);
    t.data_ = t.buffer_->data();
  }
  return t;
}

Tensor Tensor::from_buffer(DataType type, const Shape& shape, BufferRef buffer, size_t offset) {
  const size_t bytes = checked_bytes(type, shape);
  if (offset > buffer->capacity() || bytes > buffer->capacity() - offset)
    throw Error(Error::Kind::kInvalidArgument,
                fmt::format("a tensor {} of {} needs {} bytes, its memory has {}", shape.to_string(), name(type), bytes,
                            buffer->capacity() - std::min(offset, buffer->capacity())));
  Tensor t;
  t.type_ = type;
  t.shape_ = shape;
  t.data_ = buffer->data() + offset;
  t.buffer_ = std::move(buffer);
  return t;
}

Tensor Tensor::from_strings(const Shape& shape, std::vector<std::string> values) {
  if (static_cast<size_t>(shape.count()) != values.size())
    throw Error(Error::Kind::kInvalidArgument,
                fmt::format("shape {} for {} strings", shape.to_string(), values.size()));
  Tensor t;
  t.type_ = DataType::kString;
  t.shape_ = shape;
  t.strings_ = std::make_shared<std::vector<std::string>>(std::move(values));
  return t;
}

Tensor Tensor::strided_view(DataType type, const Shape& shape, const Shape& strides, BufferRef buffer,
                            std::byte* data) {
  Tensor t;
  t.type_ = type;
  t.shape_ = shape;
  t.data_ = data;
  t.buffer_ = std::move(buffer);
  int64_t expected = 1;
  for (size_t i = shape.rank(); i-- > 0; expected *= shape[i])
    if (shape[i] != 1 && strides[i] != expected) t.strided_ = true;
  if (t.strided_) t.strides_ = strides;
  return t;
}

const std::vector<std::string>& Tensor::strings() const {
  check_type(DataType::kString);
  return *strings_;
}

std::vector<std::string>& Tensor::mutable_strings() {
  check_type(DataType::kString);
  return *strings_;
}

void Tensor::check_type(DataType wanted) const {
  if (type_ != wanted)
    throw Error(Error::Kind::kInternal,
                fmt::format("a tensor of {} read as {}", attune::name(type_), attune::name(wanted)));
}

Tensor Tensor::to_contiguous(BufferPool* pool) const { return strided_ ? clone(pool) : *this; }

Tensor Tensor::reshaped(const Shape& shape) const {
  if (shape.count() != count())
    throw Error(Error::Kind::kInvalidArgument,
                fmt::format("shape {} can't become {}", shape_.to_string(), shape.to_string()));
  if (strided_) throw Error(Error::Kind::kInternal, "a strided view was reshaped");
  Tensor t = *this;
  t.shape_ = shape;
  return t;
}

Tensor Tensor::clone(BufferPool* pool) const {
  if (type_ == DataType::kString) return from_strings(shape_, *strings_);
  Tensor t = allocate(type_, shape_, pool);
  if (count() == 0) return t;
  if (!strided_) {
    std::memcpy(t.data_, data_, bytes());
  } else {
    std::byte* dst = t.data_;
    copy_strided(*this, 0, data_, dst, static_cast<size_t>(element_bits(type_)) / 8);
  }
  return t;
}

std::vector<int64_t> Tensor::to_int64() const {
  if (strided_) return clone().to_int64();
  std::vector<int64_t> out(static_cast<size_t>(count()));
  switch (type_) {
    case DataType::kInt8:
      convert<int8_t>(*this, out);
      break;
    case DataType::kUInt8:
      convert<uint8_t>(*this, out);
      break;
    case DataType::kInt16:
      convert<int16_t>(*this, out);
      break;
    case DataType::kUInt16:
      convert<uint16_t>(*this, out);
      break;
    case DataType::kInt32:
      convert<int32_t>(*this, out);
      break;
    case DataType::kUInt32:
      convert<uint32_t>(*this, out);
      break;
    case DataType::kInt64:
      convert<int64_t>(*this, out);
      break;
    case DataType::kUInt64:
      convert<uint64_t>(*this, out);
      break;
    case DataType::kBool:
      convert<bool>(*this, out);
      break;
    case DataType::kInt4:
    case DataType::kUInt4:
    case DataType::kInt2:
    case DataType::kUInt2:
      unpack(*this, out);
      break;
    default:
      throw Error(Error::Kind::kInvalidArgument, fmt::format("expected integers, got {}", attune::name(type_)));
  }
  return out;
}

std::vector<double> Tensor::to_double() const {
  if (strided_) return clone().to_double();
  std::vector<double> out(static_cast<size_t>(count()));
  switch (type_) {
    case DataType::kFloat:
      convert<float>(*this, out);
      break;
    case DataType::kDouble:
      convert<double>(*this, out);
      break;
    case DataType::kFloat16:
      convert<Float16>(*this, out);
      break;
    case DataType::kBFloat16:
      convert<BFloat16>(*this, out);
      break;
    default: {
      const auto ints = to_int64();
      std::copy(ints.begin(), ints.end(), out.begin());
    }
  }
  return out;
}

Datum Datum::sequence(std::vector<Datum> elements) {
  Datum d;
  d.kind_ = Kind::kSequence;
  d.elements_ = std::make_shared<std::vector<Datum>>(std::move(elements));
  return d;
}

Datum Datum::optional() {
  Datum d = sequence({});
  d.kind_ = Kind::kOptional;
  return d;
}

Datum Datum::optional(Datum element) {
  Datum d = sequence({std::move(element)});
  d.kind_ = Kind::kOptional;
  return d;
}

const Tensor& Datum::tensor() const {
  if (kind_ == Kind::kOptional && !elements_->empty()) return elements_->front().tensor();
  if (kind_ != Kind::kTensor) throw Error(Error::Kind::kInvalidArgument, "expected a tensor");
  return tensor_;
}

Tensor& Datum::tensor() {
  if (kind_ != Kind::kTensor) throw Error(Error::Kind::kInvalidArgument, "expected a tensor");
  return tensor_;
}

const std::vector<Datum>& Datum::elements() const {
  if (kind_ != Kind::kSequence && kind_ != Kind::kOptional)
    throw Error(Error::Kind::kInvalidArgument, "expected a sequence or an optional");
  return *elements_;
}

std::vector<Datum>& Datum::mutable_elements() {
  elements();
  if (elements_.use_count() > 1) elements_ = std::make_shared<std::vector<Datum>>(*elements_);
  return *elements_;
}

}  // namespace attune
