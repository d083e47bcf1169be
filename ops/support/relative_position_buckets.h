// T5's buckets of relative positions.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>

namespace attune {

// The bucket of key position - query position (Raffel et al. 2020, and transformers' T5Attention): half of the buckets
// (of each sign, if bidirectional) are exact distances, the rest grow by powers up to max_distance. `buckets` is at
// least 2, bidirectional 4.
class RelativePositionBuckets {
 public:
  RelativePositionBuckets(int64_t buckets, int64_t max_distance, bool bidirectional)
      : buckets_(bidirectional ? buckets / 2 : buckets),
        exact_(buckets_ / 2),
        max_distance_(max_distance),
        bidirectional_(bidirectional) {}

  int64_t operator()(int64_t relative) const {
    int64_t base = 0, distance = -relative;
    if (bidirectional_) {
      if (relative > 0) base = buckets_;
      distance = std::abs(relative);
    } else {
      distance = std::max<int64_t>(distance, 0);
    }
    if (distance < exact_) return base + distance;
    // float, as the original: the borders of buckets depend on its rounding.
    const float position =
        std::log(static_cast<float>(distance) / static_cast<float>(exact_)) /
        static_cast<float>(std::log(static_cast<double>(max_distance_) / static_cast<double>(exact_))) *
        static_cast<float>(buckets_ - exact_);
    return base + std::min(exact_ + static_cast<int64_t>(position), buckets_ - 1);
  }

 private:
  int64_t buckets_, exact_, max_distance_;
  bool bidirectional_;
};

}  // namespace attune
