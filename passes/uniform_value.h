// Tensors whose elements are all one number.
#pragma once

#include <optional>

#include "ops/infer/infer.h"

namespace attune {

// The one value of all elements of a known scalar, a ConstantOfShape, or one of these expanded or cast; nothing if it
// isn't known.
std::optional<double> uniform_value(const Value* v, const Inference& inference);

// The one value of all elements of a constant; nothing if they differ, or aren't few numbers.
std::optional<double> uniform_value(const Tensor& t);

// Whether a constant has numbers, and not so many that it takes long to look at each.
bool has_few_numbers(const Tensor& t);

// A number as Cast gives it in elements of this type.
double cast_number(double v, DataType to);

}  // namespace attune
