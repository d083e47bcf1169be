#include "ops/hosts/openvino/types.h"

#include <cstring>

#include "graph/error.h"

namespace attune::openvino {
namespace {

ov::Shape ov_shape(const Shape& shape) {
  ov::Shape out;
  for (const int64_t d : shape) out.push_back(static_cast<size_t>(d));
  return out;
}

// A tensor over memory of OpenVINO's, which outlives the call: never written to in place as an input.
Tensor borrow(DataType type, const Shape& shape, const void* data) {
  static const auto kHost = std::make_shared<const int>(0);
  static const std::byte kNothing{};
  const size_t bytes = storage_bytes(type, static_cast<size_t>(shape.count()));
  return Tensor::from_buffer(type, shape, BufferRef::view(bytes > 0 ? data : &kNothing, bytes, kHost));
}

}  // namespace

DataType data_type(const ov::element::Type& type) {
  if (type == ov::element::f32) return DataType::kFloat;
  if (type == ov::element::f16) return DataType::kFloat16;
  if (type == ov::element::bf16) return DataType::kBFloat16;
  if (type == ov::element::f64) return DataType::kDouble;
  if (type == ov::element::boolean) return DataType::kBool;
  if (type == ov::element::u8) return DataType::kUInt8;
  if (type == ov::element::i32) return DataType::kInt32;
  if (type == ov::element::i64) return DataType::kInt64;
  return DataType::kUndefined;
}

ov::element::Type element_type(DataType type) {
  switch (type) {
    case DataType::kFloat:
      return ov::element::f32;
    case DataType::kFloat16:
      return ov::element::f16;
    case DataType::kBFloat16:
      return ov::element::bf16;
    case DataType::kDouble:
      return ov::element::f64;
    case DataType::kBool:
      return ov::element::boolean;
    case DataType::kInt64:
      return ov::element::i64;
    default:
      return ov::element::dynamic;
  }
}

std::optional<Dims> dims(const ov::PartialShape& shape) {
  if (shape.rank().is_dynamic()) return std::nullopt;
  Dims out;
  for (const ov::Dimension& d : shape) out.push_back(d.is_static() ? Dim(d.get_length()) : Dim());
  return out;
}

ov::PartialShape partial_shape(const std::optional<Dims>& dims) {
  if (!dims) return ov::PartialShape::dynamic();
  std::vector<ov::Dimension> out;
  for (const Dim& d : *dims) out.push_back(d.constant() ? ov::Dimension(*d.constant()) : ov::Dimension());
  return {out};
}

Tensor read_tensor(const ov::Tensor& tensor, DataType type) {
  Shape shape;
  for (const size_t d : tensor.get_shape()) shape.push_back(static_cast<int64_t>(d));
  if (!tensor.is_continuous()) {
    ov::Tensor copy(tensor.get_element_type(), tensor.get_shape());
    tensor.copy_to(copy);
    return read_tensor(copy, type).clone();
  }
  const DataType held = data_type(tensor.get_element_type());
  const void* data = tensor.data();
  if (held == DataType::kInt32 && type == DataType::kInt64) {
    Tensor out = Tensor::allocate(type, shape);
    std::copy_n(static_cast<const int32_t*>(data), shape.count(), out.mutable_data<int64_t>());
    return out;
  }
  const bool bytes = held == DataType::kUInt8 && type == DataType::kBool;
  if (held != type && !bytes)
    throw Error(Error::Kind::kInvalidArgument, "an input of type " + tensor.get_element_type().get_type_name());
  return borrow(type, shape, data);
}

Tensor shaped(ov::Tensor& to, DataType type, const Shape& shape) {
  const ov::Shape wanted = ov_shape(shape);
  if (to.get_shape() != wanted) to.set_shape(wanted);
  return borrow(type, shape, to.data());
}

void write_tensor(const Tensor& from, ov::Tensor& to) {
  const DataType type = data_type(to.get_element_type());
  if (type == DataType::kInt32 && from.type() == DataType::kInt64) {
    const Tensor plain = from.to_contiguous();
    Tensor out = shaped(to, type, from.shape());
    std::copy_n(plain.data<int64_t>(), plain.count(), static_cast<int32_t*>(to.data()));
    return;
  }
  if (type != from.type())
    throw Error(Error::Kind::kInternal, "an output of type " + to.get_element_type().get_type_name());
  const Tensor plain = from.to_contiguous();
  shaped(to, type, from.shape());
  if (plain.bytes() > 0) std::memcpy(to.data(), plain.raw(), plain.bytes());
}

}  // namespace attune::openvino
