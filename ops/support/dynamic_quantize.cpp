#include "ops/support/dynamic_quantize.h"

#include <omp.h>

#include <algorithm>
#include <cmath>

#include "ops/support/parallel_items.h"

namespace attune {

DynamicQuantization dynamic_quantize(const float* x, int64_t count, uint8_t* y) {
  // The range includes zero.
  float low = 0, high = 0;
#pragma omp simd reduction(min : low) reduction(max : high)
  for (int64_t i = 0; i < count; ++i) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
  }
  DynamicQuantization q;
  q.scale = (high - low) / 255.0F;
  if (q.scale == 0.0F) q.scale = 1.0F;
  const float zero = std::clamp(std::nearbyint(-low / q.scale), 0.0F, 255.0F);
  q.zero_point = static_cast<uint8_t>(zero);
  const float scale = q.scale;
  parallel_items(count, 1, [&](int64_t begin, int64_t end) {
    // Adding and taking away 1.5 * 2^23 rounds to nearest even.
    constexpr float kRound = 12582912.0F;
    for (int64_t i = begin; i < end; ++i) {
      const float v = x[i] / scale;
      const float rounded = (std::min(std::max(v, -1024.0F), 1024.0F) + kRound) - kRound;
      y[i] = static_cast<uint8_t>(static_cast<int32_t>(std::min(std::max(rounded + zero, 0.0F), 255.0F)));
    }
  });
  return q;
}

}  // namespace attune
