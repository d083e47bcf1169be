#include "ops/support/random.h"

#include <atomic>
#include <bit>
#include <random>

namespace attune {

RandomSeed::RandomSeed(const Node& node) : fixed_(node.has("seed")), key_(0) {
  if (!fixed_) {
    std::random_device device;
    key_ = uint64_t{device()} << 32 | device();
  } else if (const auto* integer = node.find<int64_t>("seed")) {  // Dropout's
    key_ = static_cast<uint64_t>(*integer);
  } else {
    key_ = std::bit_cast<uint32_t>(node.attr_float("seed", 0));
  }
}

RandomStream RandomSeed::next() const {
  static std::atomic<uint64_t> runs{0};
  return RandomStream(fixed_ ? key_ : key_ + runs.fetch_add(1, std::memory_order_relaxed));
}

}  // namespace attune
