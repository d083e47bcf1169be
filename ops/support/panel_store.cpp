#include "ops/support/panel_store.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <compare>
#include <map>
#include <mutex>

#include "ops/support/parallel.h"

namespace attune {
namespace {

struct Key {
  uint64_t low = 0, high = 0;
  auto operator<=>(const Key&) const = default;
};

Key hash(const void* data, size_t bytes, uint64_t seed) {
  const XXH128_hash_t h = XXH3_128bits_withSeed(data, bytes, seed);
  return {h.low64, h.high64};
}

// Hashes of parts, made in parallel, and hashed again.
Key hash_bytes(const std::byte* data, size_t bytes) {
  constexpr size_t kPart = size_t{1} << 20;
  std::vector<Key> parts((bytes + kPart - 1) / kPart);
  parallel_for(static_cast<int64_t>(parts.size()), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
      parts[i] = hash(data + i * kPart, std::min(kPart, bytes - i * kPart), 0);
  });
  return hash(parts.data(), parts.size() * sizeof(Key), bytes);
}

Key key_of(const PanelSource& source) {
  std::vector<int64_t> words{source.transposed, source.group, source.rounded_activations};
  for (const Tensor& t : source.tensors) {
    words.push_back(static_cast<int64_t>(t.type()));
    words.insert(words.end(), t.shape().begin(), t.shape().end());
    const Key content = hash_bytes(t.raw(), t.bytes());
    words.push_back(static_cast<int64_t>(content.low));
    words.push_back(static_cast<int64_t>(content.high));
  }
  return hash(words.data(), words.size() * sizeof(int64_t), 0);
}

}  // namespace

std::shared_ptr<const PanelWeights> share_panels(const PanelSource& source, const PackPanels& pack) {
  static std::mutex mutex;
  static std::map<Key, std::weak_ptr<const PanelWeights>> known;
  const Key key = key_of(source);
  {
    const std::lock_guard lock(mutex);
    std::erase_if(known, [](const auto& entry) { return entry.second.expired(); });
    if (const auto it = known.find(key); it != known.end())
      if (auto held = it->second.lock()) return held;
  }
  const auto fresh = std::make_shared<const PanelWeights>(pack());
  const std::lock_guard lock(mutex);
  auto& entry = known[key];
  if (auto held = entry.lock()) return held;
  entry = fresh;
  return fresh;
}

}  // namespace attune
