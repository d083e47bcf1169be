#include "ops/support/quantized.h"

namespace attune {

bool is_int8(DataType type) noexcept { return type == DataType::kInt8 || type == DataType::kUInt8; }

void expect_int8(const Tensor& tensor, size_t input) {
  if (!is_int8(tensor.type())) fail_input(input, "int8 or uint8", name(tensor.type()));
}

std::vector<int32_t> zero_points(const Tensor* tensor) {
  if (!tensor) return {0};
  const auto values = tensor->to_int64();
  return {values.begin(), values.end()};
}

}  // namespace attune
