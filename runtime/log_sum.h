// Sums of probabilities that are given by their logarithms.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

namespace attune {

// ln of the sum of exp(scores); minus infinity for none.
inline float log_sum_exp(std::span<const float> scores) {
  if (scores.empty()) return -INFINITY;
  const float top = *std::max_element(scores.begin(), scores.end());
  if (std::isinf(top)) return top;
  double sum = 0;
  for (const float s : scores) sum += std::exp(static_cast<double>(s - top));
  return static_cast<float>(static_cast<double>(top) + std::log(sum));
}

}  // namespace attune
