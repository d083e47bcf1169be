// Tensors whose elements are all one number.
#pragma once

#include <optional>

#include "ops/infer/infer.h"

namespace attune {

// The one value of all elements of a known scalar, a ConstantOfShape, or one of these expanded or cast; nothing if it
// isn't known.
std::optional<double> uniform_value(const Value* v, const Inference& inference);

// A number as Cast gives it in elements of this type.
double cast_number(double v, DataType to);

}  // namespace attune
