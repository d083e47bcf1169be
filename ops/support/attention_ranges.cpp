#include "ops/support/attention_ranges.h"

#include <algorithm>
#include <limits>

namespace attune::blocked {
namespace {

// A mask that is the same for all queries of head h of batch b: the keys from the first to the last that it lets them
// see, and whether it does nothing else.
struct CommonMask {
  KeyRange seen;
  bool plain;
};
template <class T>
CommonMask common_mask(const MaskView& mask, int64_t b, int64_t h, int64_t keys) {
  const int64_t at = b * mask.strides[0] + h * mask.strides[1];
  CommonMask common{{keys, 0}, true};
  int64_t count = 0;
  for (int64_t i = 0; i < keys; ++i) {
    bool seen;
    if (mask.boolean) {
      seen = reinterpret_cast<const uint8_t*>(mask.data)[at + i * mask.strides[3]] != 0;
    } else {
      const auto bias = static_cast<float>(reinterpret_cast<const T*>(mask.data)[at + i * mask.strides[3]]);
      seen = bias != -std::numeric_limits<float>::infinity();
      common.plain = common.plain && (!seen || bias == 0);
    }
    if (!seen) continue;
    common.seen = {std::min(common.seen.first, i), i + 1};
    ++count;
  }
  common.plain = common.plain && count == std::max<int64_t>(0, common.seen.last - common.seen.first);
  return common;
}

CommonMask common_mask(const AttentionProblem& p, int64_t b, int64_t h) {
  const int64_t keys = std::min(p.mask.length, p.key_length);
  if (p.type == DataType::kFloat16) return common_mask<Float16>(p.mask, b, h, keys);
  if (p.type == DataType::kBFloat16) return common_mask<BFloat16>(p.mask, b, h, keys);
  return common_mask<float>(p.mask, b, h, keys);
}

}  // namespace

KeyRange see_keys(const AttentionProblem& p, Block& block, KeyRange* ranges) {
  KeyRange common{0, p.key_length};
  block.masked = p.mask.data != nullptr;
  if (block.masked && p.mask.strides[2] == 0) {
    const CommonMask mask = common_mask(p, block.b, block.h);
    common = mask.seen;
    block.masked = !mask.plain;
  }
  KeyRange all{p.key_length, 0};
  for (int64_t r = 0; r < block.count; ++r) {
    ranges[r] = visible_keys(p, block.b, block.first + r);
    ranges[r].first = std::max(ranges[r].first, common.first);
    ranges[r].last = std::min(ranges[r].last, common.last);
    if (ranges[r].first >= ranges[r].last) {
      ranges[r] = {0, 0};
      continue;
    }
    all = {std::min(all.first, ranges[r].first), std::max(all.last, ranges[r].last)};
  }
  return all;
}

}  // namespace attune::blocked
