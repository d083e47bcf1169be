// The projections of queries, keys and values inside an attention.
#pragma once

#include <string_view>

#include "graph/tensor.h"

namespace attune {

// x (B, T, D) times w (D, N) plus b (N); either of w and b may be null. `what` names x in errors.
// Throws Error(kInvalidArgument) where types or shapes don't fit.
Tensor project(const Tensor& x, const Tensor* w, const Tensor* b, std::string_view what, BufferPool* pool);

}  // namespace attune
