#include "ops/support/counts.h"

#include <fmt/format.h>

namespace attune {

void expect_count(const Tensor& tensor, size_t input, int64_t count) {
  if (tensor.count() != count) fail_input(input, fmt::format("{} values", count), tensor.shape().to_string());
}

void expect_one(const Tensor& tensor, size_t input) {
  if (tensor.count() != 1) fail_input(input, "one value", tensor.shape().to_string());
}

void expect_one_or(const Tensor& tensor, size_t input, int64_t count) {
  if (tensor.count() != 1 && tensor.count() != count)
    fail_input(input, fmt::format("1 or {} values", count), tensor.shape().to_string());
}

}  // namespace attune
