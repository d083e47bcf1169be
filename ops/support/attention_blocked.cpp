#include "ops/support/attention_blocked.h"

#include <algorithm>
#include <cstring>

#include "ops/support/any_order.h"
#include "ops/support/attention_blocks.h"

namespace attune {
namespace {

using blocked::PackedHead;
using blocked::Scratch;

bool shows_mean(const AttentionProblem& p) { return p.weights && p.config->weights == AttentionWeights::kHeadMean; }

// Numbers between what two threads write: a core that fetches ahead would take lines from the other.
constexpr size_t kApart = 2048;

// One call: what of it runs at the same time, and where.
class BlockedAttention {
 public:
  BlockedAttention(const AttentionProblem& problem, uint8_t* left_over)
      : p_(problem),
        left_over_(left_over),
        rows_(blocked::block_rows(p_)),
        blocks_((p_.query_length + rows_ - 1) / rows_),
        packs_(p_.batch * p_.kv_heads),
        group_(p_.heads / p_.kv_heads),
        packed_(PackedHead::numbers(p_) + kApart),
        own_(Scratch::numbers(p_) + kApart) {
    constexpr double kWorthThreads = 1 << 17;
    const double head = static_cast<double>(group_ * p_.query_length) * static_cast<double>(p_.key_length) *
                        static_cast<double>(p_.key_width + p_.value_width);
    if (head * static_cast<double>(packs_) >= kWorthThreads)
      threads_ = static_cast<int>(std::min<int64_t>(parallel_width(), packs_ * group_ * blocks_));
    // Heads are packed by the thread that attends to them: the others needn't wait for it, and it finds them in its
    // cache. Not large ones, so that all threads are done at about the same time.
    constexpr double kSmallHead = 2147483648;
    by_heads_ = !shows_mean(p_) && head <= kSmallHead && (packs_ % threads_ == 0 || packs_ >= int64_t{8} * threads_);
  }

  void run(BufferPool* pool) {
    // So many heads are packed at a time, then all threads attend to them: one for each thread, more where they are
    // small.
    constexpr size_t kSmall = size_t{1} << 20;
    const int64_t small = threads_ > 1 && !by_heads_ ? static_cast<int64_t>(kSmall / std::max<size_t>(packed_, 1)) : 1;
    const int64_t slots = std::min(std::max<int64_t>(threads_, small), packs_);
    const size_t bytes = (static_cast<size_t>(slots) * packed_ + static_cast<size_t>(threads_) * own_) * sizeof(float);
    const BufferRef buffer = pool ? pool->acquire(bytes) : BufferRef::allocate(bytes);
    memory_ = reinterpret_cast<float*>(buffer->data());
    scratch_ = memory_ + static_cast<size_t>(slots) * packed_;
    if (by_heads_) return attend_heads();
    for (int64_t first = 0; first < packs_; first += slots) attend_together(first, std::min(slots, packs_ - first));
  }

 private:
  PackedHead packed_head(int64_t pack, int64_t slot) const {
    return PackedHead(p_, pack / p_.kv_heads, pack % p_.kv_heads, memory_ + static_cast<size_t>(slot) * packed_);
  }

  void pack(int64_t pack, int64_t slot) const {
    const int64_t b = pack / p_.kv_heads;
    const int64_t last = blocked::shows_scores(p_) ? p_.key_length : visible_keys(p_, b, p_.query_length - 1).last;
    blocked::pack(p_, b, pack % p_.kv_heads, last, packed_head(pack, slot));
  }

  // Block `block` of query head `member` of a packed head's group.
  void attend(int64_t pack, int64_t slot, int64_t member, int64_t block, int part) const {
    const int64_t start = block * rows_;
    const Scratch s(p_, scratch_ + static_cast<size_t>(part) * own_);
    blocked::attend(
        p_, {pack / p_.kv_heads, pack % p_.kv_heads * group_ + member, start, std::min(rows_, p_.query_length - start)},
        packed_head(pack, slot), left_over_, s);
  }

  void attend_heads() const {
    in_any_order(threads_, packs_, [&](int part, int64_t i) {
      pack(i, part);
      for (int64_t member = 0; member < group_; ++member)
        for (int64_t block = 0; block < blocks_; ++block) attend(i, part, member, block, part);
    });
  }

  void attend_together(int64_t first, int64_t count) const {
    in_any_order(threads_, count, [&](int, int64_t i) { pack(first + i, i); });
    // Heads whose weights are added up are one task, in order.
    const int64_t in_order = shows_mean(p_) ? count * group_ : 1;
    in_any_order(threads_, count * group_ * blocks_ / in_order, [&](int part, int64_t task) {
      for (int64_t head = task / blocks_ * in_order; head < (task / blocks_ + 1) * in_order; ++head)
        attend(first + head / group_, head / group_, head % group_, task % blocks_, part);
    });
  }

  const AttentionProblem& p_;
  uint8_t* left_over_;
  int64_t rows_, blocks_, packs_, group_;  // of a block; blocks of queries; key/value heads; query heads of each
  size_t packed_;                          // from one packed head to the next
  size_t own_;                             // from one thread's scratch memory to the next
  int threads_ = 1;
  bool by_heads_;
  float* memory_ = nullptr;   // packed heads
  float* scratch_ = nullptr;  // of each thread
};

// A row's mean is one of all heads or of none.
void leave_means(const AttentionProblem& p, uint8_t* left_over) {
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t t = 0; t < p.query_length; ++t) {
      uint8_t* row = left_over + b * p.heads * p.query_length + t;
      bool left = false;
      for (int64_t h = 0; h < p.heads; ++h) left = left || row[h * p.query_length] != 0;
      for (int64_t h = 0; h < p.heads; ++h) row[h * p.query_length] = left ? 1 : 0;
    }
}

}  // namespace

bool blocks_serve(const AttentionProblem& p) {
  constexpr int64_t kFewQueries = 8;
  if (p.query_length < kFewQueries || p.key_length == 0 || p.value_width == 0 || p.type == DataType::kDouble)
    return false;
  // A mean over heads is added up where it is put out.
  if (shows_mean(p) && p.type != DataType::kFloat) return false;
  return p.config->alignment == AttentionAlignment::kSoft && p.config->score != AttentionScore::kAdditive;
}

AttentionNumbers rounded_numbers(const AttentionProblem& p) {
  const bool serves = p.type == DataType::kFloat && !p.weights && p.key_width <= blocked::kMostRounded &&
                      p.value_width <= blocked::kMostRounded;
  return serves ? blocked::fastest_numbers() : AttentionNumbers::kFloats;
}

void attend_blocked(const AttentionProblem& p, uint8_t* left_over, BufferPool* pool) {
  if (shows_mean(p))
    std::memset(p.weights, 0, static_cast<size_t>(p.batch * p.query_length * p.key_length) * sizeof(float));
  BlockedAttention(p, left_over).run(pool);
  if (shows_mean(p)) leave_means(p, left_over);
}

}  // namespace attune
