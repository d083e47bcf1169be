// Random numbers for operators with a seed attribute: Philox, so that element i doesn't depend on threads.
#pragma once

#include <cmath>
#include <numbers>

#include "ops/kernel.h"
#include "ops/support/philox.h"

namespace attune {

class RandomStream {
 public:
  explicit RandomStream(uint64_t key) : key_(key) {}
  // Uniform in [0, 1), with 53 bits.
  double uniform(int64_t i) const {
    const PhiloxCounter words = at(i);
    return static_cast<double>((uint64_t{words[0]} << 32 | words[1]) >> 11) * 0x1p-53;
  }
  // Standard normal (Box and Muller).
  double normal(int64_t i) const {
    const PhiloxCounter words = at(i);
    const double u = (static_cast<double>((uint64_t{words[0]} << 32 | words[1]) >> 11) + 1) * 0x1p-53;  // (0, 1]
    const double angle = 2 * std::numbers::pi * static_cast<double>(words[2]) * 0x1p-32;
    return std::sqrt(-2 * std::log(u)) * std::cos(angle);
  }

 private:
  PhiloxCounter at(int64_t i) const {
    return philox4x32_10({static_cast<uint32_t>(i), static_cast<uint32_t>(static_cast<uint64_t>(i) >> 32), 0, 0}, key_);
  }
  uint64_t key_;
};

// The seed of a node: its attribute, which makes every run the same; without one, each run has another.
class RandomSeed {
 public:
  explicit RandomSeed(const Node& node);
  RandomStream next() const;

 private:
  bool fixed_;
  uint64_t key_;
};

}  // namespace attune
