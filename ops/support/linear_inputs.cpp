#include "ops/support/linear_inputs.h"

#include <fmt/format.h>

#include "ops/support/broadcast_copy.h"

namespace attune {

FloatView<float> read_bias(KernelCall& call, size_t i, int64_t columns) {
  const Tensor* bias = call.optional_input(i);
  if (bias && bias->count() != columns) fail_input(i, fmt::format("shape ({})", columns), bias->shape().to_string());
  return FloatView<float>(bias, call.pool());
}

FloatView<float> read_residual(KernelCall& call, size_t i, const Shape& shape) {
  if (!call.has(i)) return {};
  return within(
      [&] { return fmt::format("input {}", i); },
      [&] { return FloatView<float>(broadcast_copy(call.input(i).to_contiguous(), shape, call.pool()), call.pool()); });
}

}  // namespace attune
