// How many values an input must have. Each throws Error(kInvalidArgument) that names the input.
#pragma once

#include "ops/kernel.h"

namespace attune {

void expect_count(const Tensor& tensor, size_t input, int64_t count);
// A scalar, or one value.
void expect_one(const Tensor& tensor, size_t input);
// One value for all, or one for each of `count`.
void expect_one_or(const Tensor& tensor, size_t input, int64_t count);

}  // namespace attune
