// Steps 3 to 5 of attention on rows of scores: constants, cap, masks. Included once for each instruction set.
#if defined(ATTUNE_ATTENTION_SCORES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTUNE_ATTENTION_SCORES_INL_H
#undef ATTUNE_ATTENTION_SCORES_INL_H
#else
#define ATTUNE_ATTENTION_SCORES_INL_H
#endif

#include <algorithm>
#include <limits>

#include "hwy/cache_control.h"
#include "ops/support/attention_blocks.h"
#include "ops/support/attention_mask.h"
#include "ops/support/attention_multiply-inl.h"
#include "ops/support/attention_vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attune {
namespace blocked {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using namespace attention_vectors::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace)

// Adds the constant of a head, which ends step 3.
template <class T>
void add_score_bias(const AttentionProblem& p, const Block& block, float* scores, int64_t n) {
  if (!p.b_score) return;
  const float offset =
      static_cast<float>(block.unit) * static_cast<float>(reinterpret_cast<const T*>(p.b_score)[block.h]);
  for (int64_t i = 0; i < n; ++i) scores[i] += offset;
}

// Step 4; n is a multiple of a vector.
void cap_scores(const AttentionProblem& p, const Block& block, float* scores, int64_t n) {
  const auto cap = static_cast<float>(block.unit * p.config->softcap);
  if (!(cap > 0)) return;
  const Vector c = hn::Set(Floats(), cap);
  for (int64_t i = 0; i < n; i += static_cast<int64_t>(hn::MaxLanes(Floats())))
    hn::StoreU(hn::Mul(c, tanh_of(hn::Div(load(scores + i), c))), Floats(), scores + i);
}

// A vector of scores with a float mask's, excluded ones -inf; see apply_mask().
HWY_INLINE Vector add_mask(Vector score, Vector bias, Vector unit) {
  const Floats d;
  const Vector excluded = hn::Set(d, -std::numeric_limits<float>::infinity());
  const Vector sum = hn::MulAdd(bias, unit, score);
  const auto overflows = hn::AndNot(hn::Eq(score, excluded), hn::Eq(sum, excluded));
  const Vector added = hn::IfThenElse(overflows, hn::Set(d, std::numeric_limits<float>::lowest()), sum);
  return hn::IfThenElse(hn::Eq(bias, excluded), excluded, added);
}

// Scores where `seen` isn't 0, -inf elsewhere.
HWY_INLINE Vector keep_seen(Vector score, const uint8_t* seen) {
  const Floats d;
  const hn::RebindToUnsigned<Floats> words;
  const auto flags = hn::PromoteTo(words, hn::LoadU(hn::Rebind<uint8_t, Floats>(), seen));
  const Vector excluded = hn::Set(d, -std::numeric_limits<float>::infinity());
  return hn::IfThenElse(hn::RebindMask(d, hn::Ne(flags, hn::Zero(words))), score, excluded);
}

// Step 5: applies the mask of query t to its scores of keys in `range`, scores[0] being that of range.first. Gives the
// largest.
template <class T>
float mask_scores(const AttentionProblem& p, const Block& block, int64_t t, KeyRange range, float* scores) {
  const MaskView& mask = p.mask;
  const int64_t n = range.last - range.first, step = mask.strides[3];
  const int64_t at = block.b * mask.strides[0] + block.h * mask.strides[1] + t * mask.strides[2] + range.first * step;
  const auto lanes = static_cast<int64_t>(hn::MaxLanes(Floats()));
  const auto unit = static_cast<float>(block.unit);
  Vector largest = hn::Set(Floats(), -std::numeric_limits<float>::infinity());
  int64_t i = 0;
  if (step == 1) {
    for (; i + lanes <= n; i += lanes) {
      const Vector score = load(scores + i);
      const Vector masked =
          mask.boolean ? keep_seen(score, reinterpret_cast<const uint8_t*>(mask.data) + at + i)
                       : add_mask(score, load(reinterpret_cast<const T*>(mask.data) + at + i), hn::Set(Floats(), unit));
      hn::StoreU(masked, Floats(), scores + i);
      largest = hn::Max(largest, masked);
    }
  }
  apply_mask<T>(mask, block.b, block.h, t, {range.first + i, range.last}, scores + i, unit, [](int64_t, bool) {});
  float result = hn::GetLane(hn::MaxOfLanes(Floats(), largest));
  for (; i < n; ++i) result = std::max(result, scores[i]);
  return result;
}

// Fetches what mask_scores() is to read for query t and keys [first, first + n). Rows of a mask are far apart, and a
// part of one is too short for the processor to fetch ahead by itself.
template <class T>
HWY_INLINE void fetch_mask(const AttentionProblem& p, const Block& block, int64_t t, int64_t first, int64_t n) {
  const MaskView& mask = p.mask;
  if (!block.masked || mask.strides[3] != 1 || t >= block.first + block.count) return;
  const size_t element = mask.boolean ? 1 : sizeof(T);
  const std::byte* from = mask.data + static_cast<size_t>(block.b * mask.strides[0] + block.h * mask.strides[1] +
                                                          t * mask.strides[2] + first) *
                                          element;
  for (int64_t i = 0; i < n * static_cast<int64_t>(element); i += 64) hwy::Prefetch(from + i);
}

// Steps 3 to 5 for one row of scores of keys [first, first + n), of which `range` is seen. Gives the largest.
template <class T>
float finish_scores(const AttentionProblem& p, const Block& block, int64_t t, KeyRange range, int64_t first, int64_t n,
                    float* scores) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const int64_t low = std::clamp<int64_t>(range.first - first, 0, n),
                high = std::clamp<int64_t>(range.last - first, low, n);
  std::fill(scores, scores + low, -kInfinity);
  std::fill(scores + high, scores + n, -kInfinity);
  if (low == high) return -kInfinity;
  add_score_bias<T>(p, block, scores + low, high - low);
  if (p.config->softcap > 0) {
    cap_scores(p, block, scores, n);  // of what isn't seen, too
    std::fill(scores, scores + low, -kInfinity);
    std::fill(scores + high, scores + n, -kInfinity);
  }
  return block.masked ? mask_scores<T>(p, block, t, {first + low, first + high}, scores + low) : largest_of(scores, n);
}

// Keys [first, first + columns), of which `keys` are there.
struct KeyBlock {
  int64_t first, keys, columns;
  bool start;  // no other was before
  bool begun;  // all kKeys are there, and each row has a maximum
};

// The scores of a block of queries and one of keys.
template <class T>
class BlockScores {
 public:
  BlockScores(const AttentionProblem& p, const Block& block, const KeyRange* ranges, const KeyBlock& keys,
              const Scratch& s)
      : p_(p),
        block_(block),
        ranges_(ranges),
        keys_(keys),
        s_(s),
        plain_(!block.masked && !p.b_score && !(p.config->softcap > 0)) {
    for (int64_t r = 0; r < kAhead; ++r) fetch_mask<T>(p, block, block.first + r, keys.first, keys.keys);
  }

  // True if steps 3 to 5 change no score of the row (or of the rows).
  bool complete(int64_t r) const {
    return plain_ && ranges_[r].first <= keys_.first && ranges_[r].last >= keys_.first + keys_.columns;
  }
  bool complete(Rows rows) const {
    for (int64_t r = rows.first; r < rows.first + rows.count; ++r)
      if (!complete(r)) return false;
    return true;
  }
  // Steps 3 to 5 for a row whose products are there. Gives the largest.
  float finish(int64_t r) const {
    fetch_mask<T>(p_, block_, block_.first + r + kAhead, keys_.first, keys_.keys);
    if (complete(r)) return hn::GetLane(hn::MaxOfLanes(Floats(), load(s_.largest + r * kPanel)));
    return finish_scores<T>(p_, block_, block_.first + r, ranges_[r], keys_.first, keys_.columns,
                            s_.scores + r * kKeys);
  }

 private:
  static constexpr int64_t kAhead = 8;

  const AttentionProblem& p_;
  const Block& block_;
  const KeyRange* ranges_;
  const KeyBlock& keys_;
  const Scratch& s_;
  bool plain_;
};

}  // namespace HWY_NAMESPACE
}  // namespace blocked
}  // namespace attune
HWY_AFTER_NAMESPACE();

#endif  // include guard for each instruction set
