#include "graph/io/tensor_proto.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "graph/io/wire.h"

namespace attune {
namespace {

[[noreturn]] void invalid(std::string message) { throw Error(Error::Kind::kInvalidModel, std::move(message)); }

// Smaller tensors are copied, so that the file needn't stay mapped for a few bytes.
constexpr size_t kViewFrom = 1024;

size_t alignment_of(DataType type) {
  if (type == DataType::kComplex64 || type == DataType::kComplex128) return alignof(double);
  return static_cast<size_t>(std::max(1, element_bits(type) / 8));
}

// Elements that one entry of a typed field holds.
int64_t elements_per_entry(DataType type) {
  const int bits = element_bits(type);
  return bits == 4 ? 2 : bits == 2 ? 4 : 1;
}

template <class To, class From>
void copy_values(const From& values, Tensor& t) {
  std::byte* out = t.mutable_raw();
  for (const auto value : values) {
    const auto v = static_cast<To>(value);
    std::memcpy(out, &v, sizeof v);
    out += sizeof v;
  }
}

// int32_data of float6 holds an element an entry; in memory four elements take three bytes, from the lowest bit on.
void pack_float6(const google::protobuf::RepeatedField<int32_t>& values, Tensor& t) {
  auto* out = reinterpret_cast<uint8_t*>(t.mutable_raw());
  std::fill(out, out + t.bytes(), uint8_t{0});
  for (size_t i = 0; i < static_cast<size_t>(values.size()); ++i) {
    const auto v = static_cast<unsigned>(values[static_cast<int>(i)]) & 0x3fu;
    const size_t bit = 6 * i;
    out[bit / 8] = static_cast<uint8_t>(out[bit / 8] | (v << (bit % 8)));
    if (bit % 8 > 2) out[bit / 8 + 1] = static_cast<uint8_t>(out[bit / 8 + 1] | (v >> (8 - bit % 8)));
  }
}

bool has_typed_data(const onnx::TensorProto& p) {
  return p.float_data_size() + p.int32_data_size() + p.int64_data_size() + p.double_data_size() + p.uint64_data_size() +
             p.string_data_size() >
         0;
}

// How many entries the typed field of `type` must have.
int64_t entries_of(DataType type, int64_t count) {
  if (type == DataType::kComplex64 || type == DataType::kComplex128) return 2 * count;
  const int64_t per_entry = elements_per_entry(type);
  return (count + per_entry - 1) / per_entry;
}

template <class From>
Tensor allocate_for(DataType type, const Shape& shape, const From& values) {
  const int64_t wanted = entries_of(type, shape.count());
  if (values.size() != wanted)
    invalid(fmt::format("a tensor {} of {} has {} values where its shape needs {}", shape.to_string(), name(type),
                        values.size(), wanted));
  return Tensor::allocate(type, shape);
}

template <class To, class From>
Tensor typed(DataType type, const Shape& shape, const From& values) {
  Tensor t = allocate_for(type, shape, values);
  copy_values<To>(values, t);
  return t;
}

Tensor from_typed_data(const onnx::TensorProto& p, DataType type, const Shape& shape) {
  switch (type) {
    case DataType::kFloat:
    case DataType::kComplex64:
      return typed<float>(type, shape, p.float_data());
    case DataType::kDouble:
    case DataType::kComplex128:
      return typed<double>(type, shape, p.double_data());
    case DataType::kInt64:
      return typed<int64_t>(type, shape, p.int64_data());
    case DataType::kUInt64:
      return typed<uint64_t>(type, shape, p.uint64_data());
    case DataType::kUInt32:
      return typed<uint32_t>(type, shape, p.uint64_data());
    case DataType::kInt32:
      return typed<int32_t>(type, shape, p.int32_data());
    case DataType::kInt16:
    case DataType::kUInt16:
    case DataType::kFloat16:
    case DataType::kBFloat16:
      return typed<uint16_t>(type, shape, p.int32_data());
    case DataType::kBool: {
      Tensor t = allocate_for(type, shape, p.int32_data());
      std::transform(p.int32_data().begin(), p.int32_data().end(), t.mutable_data<bool>(),
                     [](int32_t v) { return v != 0; });
      return t;
    }
    case DataType::kFloat6E2M3:
    case DataType::kFloat6E3M2: {
      Tensor t = allocate_for(type, shape, p.int32_data());
      pack_float6(p.int32_data(), t);
      return t;
    }
    case DataType::kString: {
      const auto& strings = p.string_data();
      if (strings.size() != shape.count())
        invalid(fmt::format("a tensor {} of strings has {} of them", shape.to_string(), strings.size()));
      return Tensor::from_strings(shape, {strings.begin(), strings.end()});
    }
    case DataType::kUndefined:
      invalid("a tensor without element type");
    default:
      return typed<uint8_t>(type, shape, p.int32_data());
  }
}

}  // namespace

DataType data_type_of(int onnx_type) {
  const auto type = static_cast<DataType>(onnx_type);
  if (onnx_type != 0 && name(type) == name(DataType::kUndefined))
    invalid(fmt::format("there is no element type {}", onnx_type));
  return type;
}

Shape shape_of(const onnx::TensorProto& proto) {
  const Shape shape(std::span<const int64_t>(proto.dims().data(), static_cast<size_t>(proto.dims_size())));
  int64_t count = 1;
  bool empty = false;
  for (const int64_t size : shape) {
    if (size < 0) invalid(fmt::format("a tensor with the negative size {}", size));
    empty = empty || size == 0;
  }
  if (empty) return shape;
  for (const int64_t size : shape)
    if (__builtin_mul_overflow(count, size, &count) || count > std::numeric_limits<int64_t>::max() / 16)
      throw Error(Error::Kind::kLimit, fmt::format("shape {} has too many elements", shape.to_string()));
  return shape;
}

Tensor TensorReader::from_bytes(DataType type, const Shape& shape, const FileBytes& file, size_t offset,
                                size_t size) const {
  if (offset > file.bytes.size() || size > file.bytes.size() - offset)
    throw Error(Error::Kind::kInternal, fmt::format("{} bytes at {} of {} bytes", size, offset, file.bytes.size()));
  const size_t needed = storage_bytes(type, static_cast<size_t>(shape.count()));
  if (size != needed)
    invalid(fmt::format("a tensor {} of {} needs {} bytes and has {}", shape.to_string(), name(type), needed, size));
  const char* data = file.bytes.data() + offset;
  // A bool that is neither 0 nor 1 must not get into a bool.
  const bool clean = type != DataType::kBool || std::all_of(data, data + size, [](char c) { return c == 0 || c == 1; });
  if (clean && size >= kViewFrom && reinterpret_cast<uintptr_t>(data) % alignment_of(type) == 0)
    return Tensor::from_buffer(type, shape, BufferRef::view(data, size, file.owner));
  Tensor t = Tensor::allocate(type, shape);
  std::byte* out = t.mutable_raw();
  use_and_release({data, size}, [&](std::string_view piece) {
    if (clean) {
      std::memcpy(out, piece.data(), piece.size());
    } else {
      std::transform(piece.begin(), piece.end(), out, [](char c) { return std::byte{c != 0}; });
    }
    out += piece.size();
  });
  return t;
}

Tensor TensorReader::read(const onnx::TensorProto& proto) {
  const auto where = [&] { return proto.name().empty() ? std::string("a tensor") : "tensor '" + proto.name() + "'"; };
  return within(where, [&] {
    if (proto.has_segment()) throw Error(Error::Kind::kUnsupported, "it is stored in segments");
    const DataType type = data_type_of(proto.data_type());
    if (type == DataType::kUndefined) invalid("it has no element type");
    const Shape shape = shape_of(proto);
    if (proto.data_location() == onnx::TensorProto::EXTERNAL) {
      if (type == DataType::kString) invalid("strings can't be external data");
      if (!read_external_) return Tensor();
      const size_t needed = storage_bytes(type, static_cast<size_t>(shape.count()));
      const ExternalData::Piece piece = external_.find(to_map(proto.external_data()), needed);
      return from_bytes(type, shape, *piece.file, piece.offset, piece.size);
    }
    if (proto.has_raw_data()) {
      const wire::RawReference raw = wire::decode(proto.raw_data());
      if (raw.size > 0 || !has_typed_data(proto)) {
        if (type == DataType::kString) invalid("strings can't be raw data");
        return from_bytes(type, shape, file_, static_cast<size_t>(raw.offset), static_cast<size_t>(raw.size));
      }
    }
    return from_typed_data(proto, type, shape);
  });
}

Tensor TensorReader::read(const onnx::SparseTensorProto& proto) {
  const auto where = [&] { return "sparse tensor '" + proto.values().name() + "'"; };
  return within(where, [&] {
    const Tensor values = read(proto.values());
    const Tensor indices = read(proto.indices());
    onnx::TensorProto dense;
    dense.mutable_dims()->CopyFrom(proto.dims());
    const Shape shape = shape_of(dense);
    if (!values.defined() || !indices.defined()) return Tensor();
    if (values.rank() != 1) invalid("its values aren't a list");
    if (indices.type() != DataType::kInt64) invalid("its indices aren't int64");
    const bool linear = indices.rank() == 1 && indices.dim(0) == values.dim(0);
    const bool coordinates =
        indices.rank() == 2 && indices.dim(0) == values.dim(0) && indices.dim(1) == static_cast<int64_t>(shape.rank());
    if (!linear && !coordinates)
      invalid(fmt::format("indices {} for {} values", indices.shape().to_string(), values.count()));
    if (values.type() == DataType::kString || element_bits(values.type()) % 8 != 0)
      throw Error(Error::Kind::kUnsupported, fmt::format("it holds {}", name(values.type())));

    const size_t bytes = storage_bytes(values.type(), static_cast<size_t>(shape.count()));
    if (bytes > (size_t{1} << 28) + 1000 * values.bytes())
      throw Error(Error::Kind::kLimit, fmt::format("{} bytes for {} values", bytes, values.count()));
    Tensor t = Tensor::allocate(values.type(), shape);
    std::memset(t.mutable_raw(), 0, t.bytes());
    const auto element = static_cast<size_t>(element_bits(values.type())) / 8;
    const auto index = indices.values<int64_t>();
    for (size_t i = 0; i < static_cast<size_t>(values.count()); ++i) {
      int64_t at = 0;
      if (linear) {
        at = index[i];
        if (at < 0 || at >= t.count()) invalid(fmt::format("index {} is outside of {}", at, shape.to_string()));
      } else {
        for (size_t axis = 0; axis < shape.rank(); ++axis) {
          const int64_t c = index[i * shape.rank() + axis];
          if (c < 0 || c >= shape[axis]) invalid(fmt::format("index {} is outside of {}", c, shape.to_string()));
          at = at * shape[axis] + c;
        }
      }
      std::memcpy(t.mutable_raw() + static_cast<size_t>(at) * element, values.raw() + i * element, element);
    }
    return t;
  });
}

Tensor TensorReader::read_whole(const onnx::SparseTensorProto& proto) {
  const FileBytes message = FileBytes::of_string(proto.SerializeAsString());
  onnx::SparseTensorProto skeleton;
  if (!skeleton.ParseFromString(wire::skeleton(message.bytes, wire::Message::kSparseTensor)))
    throw Error(Error::Kind::kInternal, "a sparse tensor can't be parsed again");
  TensorReader reader(*this);
  reader.file_ = message;
  return reader.read(skeleton);
}

// ---- Types

namespace {

void read_shape(const onnx::TensorShapeProto& proto, TensorType& type) {
  Dims dims;
  for (int i = 0; i < proto.dim_size(); ++i) {
    const auto& d = proto.dim(i);
    if (d.has_dim_value()) {
      dims.push_back(d.dim_value() < 0 ? Dim() : Dim(d.dim_value()));  // some exporters write -1 for unknown
    } else {
      dims.push_back(Dim::parse(d.dim_param()));
    }
    if (!d.denotation().empty()) {
      type.denotations.resize(static_cast<size_t>(i) + 1);
      type.denotations.back() = d.denotation();
    }
  }
  type.shape = std::move(dims);
}

void write_shape(const TensorType& type, onnx::TensorShapeProto& proto) {
  for (size_t i = 0; i < type.shape->size(); ++i) {
    const Dim& dim = (*type.shape)[i];
    auto& d = *proto.add_dim();
    if (!dim.source_text().empty()) {
      d.set_dim_param(dim.source_text());
    } else if (const auto value = dim.constant()) {
      d.set_dim_value(*value);
    } else if (const std::string name = dim.as_symbol(); !name.empty()) {
      d.set_dim_param(name);
    } else if (dim.known()) {
      d.set_dim_param(dim.to_string());
    }
    if (i < type.denotations.size() && !type.denotations[i].empty()) d.set_denotation(type.denotations[i]);
  }
}

}  // namespace

ValueType to_type(const onnx::TypeProto& proto) {
  ValueType type;
  switch (proto.value_case()) {
    case onnx::TypeProto::kTensorType:
      type.kind = ValueType::Kind::kTensor;
      type.tensor.element = data_type_of(proto.tensor_type().elem_type());
      if (proto.tensor_type().has_shape()) read_shape(proto.tensor_type().shape(), type.tensor);
      break;
    case onnx::TypeProto::kSparseTensorType:
      type.kind = ValueType::Kind::kSparseTensor;
      type.tensor.element = data_type_of(proto.sparse_tensor_type().elem_type());
      if (proto.sparse_tensor_type().has_shape()) read_shape(proto.sparse_tensor_type().shape(), type.tensor);
      break;
    case onnx::TypeProto::kSequenceType:
      type = ValueType::sequence(to_type(proto.sequence_type().elem_type()));
      break;
    case onnx::TypeProto::kOptionalType:
      type = ValueType::optional(to_type(proto.optional_type().elem_type()));
      break;
    case onnx::TypeProto::kMapType:
      type.kind = ValueType::Kind::kMap;
      type.key = data_type_of(proto.map_type().key_type());
      type.element = std::make_shared<const ValueType>(to_type(proto.map_type().value_type()));
      break;
    case onnx::TypeProto::kOpaqueType:
      type.unmodelled = proto.SerializeAsString();
      break;
    case onnx::TypeProto::VALUE_NOT_SET:
      break;
  }
  type.denotation = proto.denotation();
  return type;
}

void to_proto(const ValueType& type, onnx::TypeProto& proto) {
  switch (type.kind) {
    case ValueType::Kind::kUnknown:
      if (!type.unmodelled.empty()) proto.ParseFromString(type.unmodelled);
      break;
    case ValueType::Kind::kTensor:
      proto.mutable_tensor_type()->set_elem_type(static_cast<int32_t>(type.tensor.element));
      if (type.tensor.shape) write_shape(type.tensor, *proto.mutable_tensor_type()->mutable_shape());
      break;
    case ValueType::Kind::kSparseTensor:
      proto.mutable_sparse_tensor_type()->set_elem_type(static_cast<int32_t>(type.tensor.element));
      if (type.tensor.shape) write_shape(type.tensor, *proto.mutable_sparse_tensor_type()->mutable_shape());
      break;
    case ValueType::Kind::kSequence:
      to_proto(*type.element, *proto.mutable_sequence_type()->mutable_elem_type());
      break;
    case ValueType::Kind::kOptional:
      to_proto(*type.element, *proto.mutable_optional_type()->mutable_elem_type());
      break;
    case ValueType::Kind::kMap:
      proto.mutable_map_type()->set_key_type(static_cast<int32_t>(type.key));
      to_proto(*type.element, *proto.mutable_map_type()->mutable_value_type());
      break;
  }
  if (!type.denotation.empty()) proto.set_denotation(type.denotation);
}

std::map<std::string, std::string> to_map(
    const google::protobuf::RepeatedPtrField<onnx::StringStringEntryProto>& entries) {
  std::map<std::string, std::string> map;
  for (const auto& e : entries) map.insert_or_assign(e.key(), e.value());
  return map;
}

void to_proto(const std::map<std::string, std::string>& map,
              google::protobuf::RepeatedPtrField<onnx::StringStringEntryProto>& entries) {
  for (const auto& [key, value] : map) {
    auto& e = *entries.Add();
    e.set_key(key);
    e.set_value(value);
  }
}

}  // namespace attune
