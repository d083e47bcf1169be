#include "ops/support/attention_blocked.h"

#include <algorithm>
#include <cstring>

#include "ops/support/any_order.h"
#include "ops/support/attention_blocks.h"

namespace attune {
namespace {

using blocked::Block;
using blocked::PackedHead;
using blocked::Scratch;

bool shows_mean(const AttentionProblem& p) { return p.weights && p.config->weights == AttentionWeights::kHeadMean; }

}  // namespace

bool blocks_serve(const AttentionProblem& p) {
  constexpr int64_t kFewQueries = 8;
  if (p.query_length < kFewQueries || p.key_length == 0 || p.value_width == 0 || p.type == DataType::kDouble)
    return false;
  // A mean over heads is added up where it is put out.
  if (shows_mean(p) && p.type != DataType::kFloat) return false;
  return p.config->alignment == AttentionAlignment::kSoft && p.config->score != AttentionScore::kAdditive;
}

void attend_blocked(const AttentionProblem& p, uint8_t* left_over, BufferPool* pool) {
  const int64_t blocks = (p.query_length + blocked::kQueries - 1) / blocked::kQueries;
  const int64_t packs = p.batch * p.kv_heads, group = p.heads / p.kv_heads;  // key/value heads; query heads of each
  const double work = static_cast<double>(p.batch * p.heads * p.query_length) * static_cast<double>(p.key_length) *
                      static_cast<double>(p.key_width + p.value_width);
  constexpr double kWorthThreads = 1 << 17;
  const auto threads =
      work < kWorthThreads ? 1 : static_cast<int>(std::min<int64_t>(parallel_width(), packs * group * blocks));
  // So many heads are packed at a time, then all threads attend to them: one for each thread, more where they are
  // small.
  const size_t packed = PackedHead::numbers(p), own = Scratch::numbers(p);
  constexpr size_t kSmall = size_t{1} << 20;
  const int64_t small = threads > 1 ? static_cast<int64_t>(kSmall / std::max<size_t>(packed, 1)) : 1;
  const int64_t slots = std::min(std::max<int64_t>(threads, small), packs);
  const size_t bytes =
      (static_cast<size_t>(slots) * (packed + 16) + static_cast<size_t>(threads) * own) * sizeof(float);
  const BufferRef buffer = pool ? pool->acquire(bytes) : BufferRef::allocate(bytes);
  auto* memory = reinterpret_cast<float*>(buffer->data());
  float* finite = memory + static_cast<size_t>(slots) * packed;  // 1 where all values of a slot's head are finite
  float* scratch = finite + static_cast<size_t>(slots) * 16;
  if (shows_mean(p))
    std::memset(p.weights, 0, static_cast<size_t>(p.batch * p.query_length * p.key_length) * sizeof(float));
  for (int64_t first = 0; first < packs; first += slots) {
    const int64_t count = std::min(slots, packs - first);
    in_any_order(threads, count, [&](int, int64_t i) {
      const int64_t b = (first + i) / p.kv_heads, g = (first + i) % p.kv_heads;
      const PackedHead head(p, memory + static_cast<size_t>(i) * packed);
      const int64_t last = blocked::shows_scores(p) ? p.key_length : visible_keys(p, b, p.query_length - 1).last;
      finite[i * 16] = blocked::pack(p, b, g, last, head) ? 1.0F : 0.0F;
    });
    // Heads whose weights are added up are one task, in order.
    const int64_t in_order = shows_mean(p) ? count * group : 1;
    in_any_order(threads, count * group * blocks / in_order, [&](int part, int64_t task) {
      const Scratch s(p, scratch + static_cast<size_t>(part) * own);
      for (int64_t head = task / blocks * in_order; head < (task / blocks + 1) * in_order; ++head) {
        const int64_t i = head / group, pack = first + i, start = task % blocks * blocked::kQueries;
        const int64_t b = pack / p.kv_heads, h = pack % p.kv_heads * group + head % group;
        const Block block{b, h, start, std::min(blocked::kQueries, p.query_length - start)};
        if (finite[i * 16] != 0) {
          blocked::attend(p, block, PackedHead(p, memory + static_cast<size_t>(i) * packed), left_over, s);
        } else {
          std::memset(left_over + (b * p.heads + h) * p.query_length + start, 1, static_cast<size_t>(block.count));
        }
      }
    });
  }
  // A row's mean is one of all heads or of none.
  if (shows_mean(p)) {
    for (int64_t b = 0; b < p.batch; ++b)
      for (int64_t t = 0; t < p.query_length; ++t) {
        uint8_t* row = left_over + b * p.heads * p.query_length + t;
        bool left = false;
        for (int64_t h = 0; h < p.heads; ++h) left = left || row[h * p.query_length] != 0;
        for (int64_t h = 0; h < p.heads; ++h) row[h * p.query_length] = left ? 1 : 0;
      }
  }
}

}  // namespace attune
