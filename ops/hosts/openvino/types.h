// Types, shapes and tensors between OpenVINO and attune.
#pragma once

#include <openvino/core/partial_shape.hpp>
#include <openvino/core/type/element_type.hpp>
#include <openvino/runtime/tensor.hpp>

#include "graph/tensor.h"
#include "graph/type.h"

namespace attune::openvino {

// kUndefined for types that no operator of ai.attune has.
DataType data_type(const ov::element::Type& type);
ov::element::Type element_type(DataType type);
// Nothing, or unknown sizes, where OpenVINO's are dynamic; and back.
std::optional<Dims> dims(const ov::PartialShape& shape);
ov::PartialShape partial_shape(const std::optional<Dims>& dims);
// `tensor` as `type`: its memory if that is the type it has (bytes are bool too), else a copy.
Tensor read_tensor(const ov::Tensor& tensor, DataType type);
// Gives `to` the shape and the values of `from`, as the type that it has.
void write_tensor(const Tensor& from, ov::Tensor& to);
// The memory of `to`, after it got the shape.
Tensor shaped(ov::Tensor& to, DataType type, const Shape& shape);

}  // namespace attune::openvino
