// float16 and bfloat16 arrays to and from float, vectorised (round to nearest even).
#pragma once

#include <cstddef>

#include "graph/data_type.h"

namespace attune {

void convert(const Float16* in, float* out, size_t n);
void convert(const BFloat16* in, float* out, size_t n);
void convert(const float* in, Float16* out, size_t n);
void convert(const float* in, BFloat16* out, size_t n);

template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;
// The type in which a kernel computes on T.
template <class T>
using ComputeType = std::conditional_t<kIsHalf<T>, float, T>;

}  // namespace attune
