// Putting out the scores or weights of a block of queries. Included once for each instruction set.
#if defined(ATTUNE_ATTENTION_SHOWN_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTUNE_ATTENTION_SHOWN_INL_H
#undef ATTUNE_ATTENTION_SHOWN_INL_H
#else
#define ATTUNE_ATTENTION_SHOWN_INL_H
#endif

#include <algorithm>
#include <cmath>

#include "ops/support/attention_blocks.h"
#include "ops/support/attention_exponentials-inl.h"
#include "ops/support/attention_mask.h"
#include "ops/support/attention_multiply-inl.h"
#include "ops/support/attention_scores-inl.h"
#include "ops/support/attention_vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attune {
namespace blocked {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using namespace attention_vectors::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace)

// Writes `count` weights, or adds them to the mean over heads: exponentials times `factor`.
template <class T>
void write_weights(const AttentionProblem& p, const float* exponentials, int64_t count, float factor, T* to) {
  if (p.config->weights != AttentionWeights::kHeadMean) {
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(exponentials[i] * factor);
    return;
  }
  const float share = factor / static_cast<float>(p.heads);
  if constexpr (std::is_same_v<T, float>)
    for (int64_t i = 0; i < count; ++i) to[i] += exponentials[i] * share;
}

// Puts out the scores of a block: of every key after step 3 or 4, or after step 5 with -inf where a key isn't seen.
template <class T>
void show_scores(const AttentionProblem& p, const Block& block, const PackedHead& head, const KeyRange* ranges,
                 const Scratch& s) {
  const AttentionWeights kind = p.config->weights;
  const bool masked = kind == AttentionWeights::kBiased && p.mask.data && !p.mask.boolean;
  T* rows =
      reinterpret_cast<T*>(p.weights) + ((block.b * p.heads + block.h) * p.query_length + block.first) * p.key_length;
  for (int64_t first = 0; first < p.key_length; first += kKeys) {
    const int64_t keys = std::min(kKeys, p.key_length - first), columns = panels(keys) * kPanel;
    Nothing nothing;
    multiply_keys<Product::kStore>(p, head, {0, block.count}, first, columns, s, nothing);
    for (int64_t r = 0; r < block.count; ++r) {
      float* scores = s.scores + r * kKeys;
      if (kind == AttentionWeights::kBiased) {
        finish_scores<T>(p, block, block.first + r, ranges[r], first, columns, scores);
      } else {
        add_score_bias<T>(p, block, scores, columns);
        if (kind == AttentionWeights::kCapped) cap_scores(p, block, scores, columns);
      }
      T* row = rows + r * p.key_length + first;
      for (int64_t i = 0; i < keys; ++i) row[i] = masked ? narrow_masked<T>(scores[i]) : static_cast<T>(scores[i]);
    }
  }
}

// The weights of a block whose maxima and sums are known. `all`: the keys that any of its rows sees. Where these are
// one block, their exponentials still stand in the scores.
template <class T>
void show_weights(const AttentionProblem& p, const Block& block, const PackedHead& head, const KeyRange* ranges,
                  KeyRange all, const Scratch& s) {
  const bool mean = p.config->weights == AttentionWeights::kHeadMean;
  const auto row_of = [&](int64_t r) {
    const int64_t rows = mean ? block.b : block.b * p.heads + block.h;
    return reinterpret_cast<T*>(p.weights) + (rows * p.query_length + block.first + r) * p.key_length;
  };
  if (!mean)
    for (int64_t r = 0; r < block.count; ++r) std::fill_n(row_of(r), p.key_length, T{});
  const int64_t start = all.first / kPanel * kPanel;
  const bool one_block = all.last - start <= kKeys;
  for (int64_t first = start; first < all.last; first += kKeys) {
    const int64_t keys = std::min(kKeys, all.last - first), columns = panels(keys) * kPanel;
    Nothing nothing;
    if (!one_block) multiply_keys<Product::kStore>(p, head, {0, block.count}, first, columns, s, nothing);
    for (int64_t r = 0; r < block.count; ++r) {
      if (!std::isfinite(s.factor[r])) continue;
      float* scores = s.scores + r * kKeys;
      if (!one_block) {
        finish_scores<T>(p, block, block.first + r, ranges[r], first, columns, scores);
        exponentials_of<true>(scores, columns, s.from[r]);
      }
      write_weights(p, scores, keys, s.factor[r], row_of(r) + first);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace blocked
}  // namespace attune
HWY_AFTER_NAMESPACE();

#endif  // include guard for each instruction set
