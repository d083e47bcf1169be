// The largest or smallest value of a contiguous row, vectorised.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

namespace attune {

// The better of two values; NaN doesn't count.
template <bool kMax, class C>
C better_of(C a, C b) {
  return kMax ? (a < b ? b : a) : (b < a ? b : a);
}

// The best of `start` and x[0..n); NaN if one of x is NaN.
template <bool kMax, class C>
C row_extreme(const C* x, int64_t n, C start) {
  constexpr size_t kLanes = 32;
  std::array<C, kLanes> best;
  best.fill(start);
  std::array<C, kLanes> nan{};  // sums of x - x: not 0 where there was a NaN or an infinity
  int64_t i = 0;
  for (; i + static_cast<int64_t>(kLanes) <= n; i += kLanes) {
    const C* block = x + i;
    for (size_t k = 0; k < kLanes; ++k) best[k] = better_of<kMax>(best[k], block[k]);
    if constexpr (std::is_floating_point_v<C>)
      for (size_t k = 0; k < kLanes; ++k) nan[k] += block[k] - block[k];
  }
  C result = start;
  bool unsure = false;
  for (size_t k = 0; k < kLanes; ++k) {
    result = better_of<kMax>(result, best[k]);
    unsure = unsure || nan[k] != 0;
  }
  if (unsure) i = 0;
  for (; i < n; ++i) {
    if (x[i] != x[i]) return x[i];
    result = better_of<kMax>(result, x[i]);
  }
  return result;
}

// The first position of `value` (not NaN) in a row that holds it.
template <class C>
int64_t row_find(const C* x, int64_t n, C value) {
  constexpr int64_t kBlock = 64;
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    int found = 0;
    for (int64_t k = 0; k < kBlock; ++k) found |= static_cast<int>(x[i + k] == value);
    if (found) break;
  }
  while (i < n - 1 && !(x[i] == value)) ++i;
  return i;
}

}  // namespace attune
