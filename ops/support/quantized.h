// Operands of 8-bit operators.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ops/kernel.h"

namespace attune {

bool is_int8(DataType type) noexcept;  // int8, uint8
// Throws Error(kInvalidArgument) that names the input.
void expect_int8(const Tensor& tensor, size_t input);

// `value`, a whole number, as one of the 256 codes from `low` (-128 or 0) on. NaN becomes the lowest.
inline uint8_t to_code(float value, float low) {
  const float code = value > low ? std::min(value, low + 255.0F) : low;
  return static_cast<uint8_t>(static_cast<int32_t>(code));
}

// The values of zero points; 0 if they are left out.
std::vector<int32_t> zero_points(const Tensor* tensor);

}  // namespace attune
