// The static type of a value: what the graph says about it.
#pragma once

#include <memory>
#include <optional>

#include "graph/data_type.h"
#include "graph/dim.h"

namespace attune {

struct TensorType {
  DataType element = DataType::kUndefined;
  std::optional<Dims> shape = std::nullopt;   // none: rank unknown
  std::vector<std::string> denotations = {};  // ONNX dimension denotations, by axis; may be shorter than the shape

  bool has_rank() const noexcept { return shape.has_value(); }
  // The rank; -1 if unknown.
  int rank() const noexcept { return shape ? static_cast<int>(shape->size()) : -1; }
  // Size of `axis` (negative from the end); unknown if it can't be told.
  Dim dim(int axis) const {
    if (!shape) return {};
    const int r = rank();
    const int i = axis < 0 ? axis + r : axis;
    return i >= 0 && i < r ? (*shape)[static_cast<size_t>(i)] : Dim();
  }
};

// A tensor, or a sequence, optional or map of something.
struct ValueType {
  enum class Kind { kUnknown, kTensor, kSequence, kOptional, kMap, kSparseTensor };
  Kind kind = Kind::kUnknown;
  TensorType tensor;                         // kTensor, kSparseTensor
  std::shared_ptr<const ValueType> element;  // of a sequence or optional, or a map's values
  DataType key = DataType::kUndefined;       // of a map
  std::string denotation = {};               // ONNX type denotation ("IMAGE")
  std::string unmodelled = {};               // kUnknown: a serialized onnx::TypeProto (opaque types), kept for writing

  static ValueType of(DataType element, std::optional<Dims> shape = std::nullopt) {
    return {Kind::kTensor, {element, std::move(shape), {}}, nullptr, DataType::kUndefined, {}, {}};
  }
  static ValueType sequence(ValueType element) {
    return {Kind::kSequence, {}, std::make_shared<const ValueType>(std::move(element)), DataType::kUndefined, {}, {}};
  }
  static ValueType optional(ValueType element) {
    return {Kind::kOptional, {}, std::make_shared<const ValueType>(std::move(element)), DataType::kUndefined, {}, {}};
  }
  std::string to_string() const;  // "float(batch,length,512)", "seq(float(?))", "unknown"
};

}  // namespace attune
