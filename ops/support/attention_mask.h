// Applying a mask to a row of scores.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "ops/support/attention_problem.h"

namespace attune {

// Adds the mask of query t of head h to its scores of keys [range.first, range.last), scores[0] being that of
// range.first; excluded ones become -inf. see(i, takes_part) is called for each, i counted from range.first. T is the
// type of a float mask, A that of scores, which are counted in `unit`.
template <class T, class A, class See>
void apply_mask(const MaskView& mask, int64_t b, int64_t h, int64_t t, KeyRange range, A* scores, A unit, See&& see) {
  constexpr A kInfinity = std::numeric_limits<A>::infinity();
  const int64_t step = mask.strides[3], n = range.last - range.first;
  const int64_t at = b * mask.strides[0] + h * mask.strides[1] + t * mask.strides[2] + range.first * step;
  if (mask.boolean) {
    const auto* row = reinterpret_cast<const uint8_t*>(mask.data) + at;
    for (int64_t i = 0; i < n; ++i) {
      const bool seen = row[i * step] != 0;
      see(i, seen);
      scores[i] = seen ? scores[i] : -kInfinity;
    }
    return;
  }
  const T* row = reinterpret_cast<const T*>(mask.data) + at;
  for (int64_t i = 0; i < n; ++i) {
    const A bias = static_cast<A>(row[i * step]), before = scores[i], sum = before + unit * bias;
    const bool seen = bias != -kInfinity, overflows = sum == -kInfinity && before != -kInfinity;
    see(i, seen);
    scores[i] = !seen ? -kInfinity : overflows ? std::numeric_limits<A>::lowest() : sum;
  }
}

// A score that a float mask was added to, in the operands' type: what isn't excluded stays above -inf in narrow types
// too.
template <class T, class A>
T narrow_masked(A score) {
  const T narrow = static_cast<T>(score);
  if constexpr (sizeof(T) == 2) {
    if (score < 0 && std::isfinite(score) && std::isinf(static_cast<float>(narrow))) {
      T lowest;
      lowest.bits = std::is_same_v<T, Float16> ? 0xfbff : 0xff7f;
      return lowest;
    }
  }
  return narrow;
}

}  // namespace attune
