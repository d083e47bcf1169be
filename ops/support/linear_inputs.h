// Inputs that the operators of linear layers share.
#pragma once

#include "ops/kernel.h"
#include "ops/support/float_tensor.h"

namespace attune {

// Input `i`, a bias (columns); a view of nothing if it isn't given. Throws Error(kInvalidArgument) for another size.
FloatView<float> read_bias(KernelCall& call, size_t i, int64_t columns);

// Input `i`, broadcast to the result's shape; a view of nothing if it isn't given.
FloatView<float> read_residual(KernelCall& call, size_t i, const Shape& shape);

}  // namespace attune
