// Constant matrices that tell two kinds of positions apart by the distance of column and row.
#pragma once

#include <cstdint>
#include <optional>

#include "graph/tensor.h"

namespace attune {

// `inside` where first <= column - row <= last, else `outside`.
struct ConstantBand {
  int64_t first, last;
  double inside, outside;
};

// Of a constant whose last two axes are such a matrix, with all axes in front of them of size 1: a triangle, or a
// diagonal of some width. Nothing for others, and where it is very large.
std::optional<ConstantBand> constant_band(const Tensor& t);

}  // namespace attune
