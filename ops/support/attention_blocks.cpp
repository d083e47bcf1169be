#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/support/attention_blocks.cpp"

#include "hwy/foreach_target.h"  // compiles this file once per instruction set
//
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "ops/support/attention_blocks.h"
#include "ops/support/attention_exponentials-inl.h"
#include "ops/support/attention_multiply-inl.h"
#include "ops/support/attention_ranges.h"
#include "ops/support/attention_scores-inl.h"
#include "ops/support/attention_shown-inl.h"
#include "ops/support/attention_vectors-inl.h"
#include "ops/support/attention_words-inl.h"
#include "ops/support/panel_block.h"

HWY_BEFORE_NAMESPACE();
namespace attune {
namespace blocked {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using namespace attention_vectors::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace)

// Rows whose scores become exponentials while they are in the first-level cache.
constexpr int64_t kTogether = kRows % 3 == 0 ? 12 : 8, kWordsTogether = kWordRows == 3 ? 12 : 8;

template <class T>
void load_queries(const AttentionProblem& p, const Block& block, const Scratch& s) {
  const bool general = p.config->score == AttentionScore::kGeneral;
  const auto scale = static_cast<float>(general ? block.unit : block.unit * p.scale);
  for (int64_t r = 0; r < block.count; ++r) {
    const T* __restrict query = p.query.row<T>(block.b, block.h, block.first + r);
    float* __restrict to = s.queries + r * p.key_width;
    if (!general) {
      for (int64_t e = 0; e < p.query_width; ++e) to[e] = scale * static_cast<float>(query[e]);
      continue;
    }
    std::fill_n(to, p.key_width, 0.0F);
    const T* w = reinterpret_cast<const T*>(p.w_score) + block.h * p.query_width * p.key_width;
    for (int64_t e = 0; e < p.query_width; ++e, w += p.key_width) {
      const float q = scale * static_cast<float>(query[e]);
      for (int64_t k = 0; k < p.key_width; ++k) to[k] += q * static_cast<float>(w[k]);
    }
  }
}

// The queries become words, row by row.
void round_queries(const AttentionProblem& p, int64_t count, const Scratch& s) {
  for (int64_t r = 0; r < count; ++r) {
    float* row = s.queries + r * p.key_width;
    s.query_scales[r] = round_row(row, p.key_width, most_of_key(p.key_width), reinterpret_cast<int16_t*>(row));
  }
}

// A maximum follows scores that are larger by more octaves: exponentials above 1 do no harm, so few rows need to be
// scaled anew.
constexpr float kRise = 12;

// Makes `largest` the number that a row's scores are counted from, and lets what was added up before follow.
HWY_INLINE void raise_maximum(int64_t r, float largest, int64_t wide, const Scratch& s) {
  const Vector kept = exp2_of_score(hn::Set(Floats(), s.maximum[r] - largest));
  s.maximum[r] = s.from[r] = largest;
  float* sums = s.sums + r * kPanel;
  hn::StoreU(hn::Mul(load(sums), kept), Floats(), sums);
  float* context = s.context + r * wide;
  for (int64_t f = 0; f < wide; f += static_cast<int64_t>(kLanes))
    hn::StoreU(hn::Mul(load(context + f), kept), Floats(), context + f);
}

// A row whose scores so far are all -inf or NaN. NaN is no maximum, but is seen.
void leave_row(int64_t r, float* scores, int64_t columns, const Scratch& s) {
  if (std::any_of(scores, scores + columns, [](float x) { return std::isnan(x); }))
    s.sums[r * kPanel] = s.maximum[r] = NAN;
  std::fill_n(scores, columns, 0.0F);
}

// Lets the number that a row's scores are counted from follow `largest`, that of scores to come. False if these and
// those before are all -inf or NaN.
HWY_INLINE bool follow_largest(int64_t r, float largest, int64_t wide, const Scratch& s) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (largest - s.maximum[r] <= kRise) return true;
  const float maximum = std::max(s.maximum[r], largest);
  if (maximum == -kInfinity) return false;
  if (s.maximum[r] == -kInfinity) {
    s.maximum[r] = s.from[r] = maximum;
  } else if (maximum != s.maximum[r]) {
    raise_maximum(r, maximum, wide, s);
  }
  return true;
}

// The scores of rows become exponentials, which are added up.
HWY_INLINE void exponentiate_rows(Rows rows, int64_t columns, const Scratch& s) {
  for (int64_t r = rows.first; r < rows.first + rows.count; ++r) {
    float* sums = s.sums + r * kPanel;
    hn::StoreU(hn::Add(load(sums), exponentials_of<true>(s.scores + r * kKeys, columns, s.from[r])), Floats(), sums);
  }
}

// The same for words: exponentials times the scales of the values. Leaves the bits of their largest in s.largest, by
// lanes.
HWY_INLINE void weigh_row(int64_t r, float largest, const float* value_scales, int64_t columns, int64_t wide,
                          const Scratch& s) {
  constexpr auto kStep = static_cast<int64_t>(kLanes);
  float* scores = s.scores + r * kKeys;
  const Vector none = hn::Zero(Floats());
  if (!follow_largest(r, largest, wide, s)) {
    hn::StoreU(none, Floats(), s.largest + r * kPanel);
    return leave_row(r, scores, columns, s);
  }
  const Vector from = hn::Set(Floats(), s.from[r]);
  Vector sum = load(s.sums + r * kPanel);
  IntegerVector bits = hn::Zero(Integers());
  for (int64_t i = 0; i < columns; i += kStep) {
    const Vector e = exp2_of_score(hn::Sub(load(scores + i), from));
    const Vector weight = hn::Mul(e, load(value_scales + i));
    sum = hn::Add(sum, e);
    bits = hn::Max(bits, size_bits(weight));
    hn::StoreU(weight, Floats(), scores + i);
  }
  hn::StoreU(sum, Floats(), s.sums + r * kPanel);
  hn::StoreU(hn::BitCast(Floats(), bits), Floats(), s.largest + r * kPanel);
}

// Weights become words of at most 2^kWeightBits, whose scale is a power of two.
HWY_INLINE void round_weights(int64_t r, int64_t columns, const Scratch& s) {
  const Floats d;
  const Integers di;
  constexpr auto kStep = static_cast<int64_t>(kLanes);
  // At least 2^-100: the power of two has an inverse.
  constexpr int32_t kLeast = 27 << 23, kInfinite = 255 << 23;
  const IntegerVector bits = hn::Max(hn::MaxOfLanes(di, load_lanes(s.largest + r * kPanel)), hn::Set(di, kLeast));
  const IntegerVector exponent = hn::ShiftRight<23>(bits);
  const Vector factor = hn::BitCast(d, hn::ShiftLeft<23>(hn::Sub(hn::Set(di, 253 + kWeightBits), exponent)));
  const Vector scale = hn::BitCast(d, hn::ShiftLeft<23>(hn::Sub(exponent, hn::Set(di, kWeightBits - 1))));
  float* scores = s.scores + r * kKeys;
  auto* words = reinterpret_cast<int16_t*>(scores);
  for (int64_t i = 0; i < columns; i += kStep) store_words(hn::Mul(load(scores + i), factor), words + i);
  s.weight_scales[r] = hn::GetLane(bits) < kInfinite ? hn::GetLane(scale) : NAN;
}

using Numbers = AttentionNumbers;

// Exponentials are computed beside the next product where there are registers enough for both.
constexpr bool kBesideProducts = HWY_TARGET == HWY_AVX3;

// Scores of some of a block's queries and their largest, by lanes, of words.
template <Numbers kNumbers>
void score_words(const AttentionProblem& p, const PackedHead& head, Rows rows, const KeyBlock& keys, const Scratch& s) {
  float* largest = s.largest + rows.first * kPanel;
  const Vector none = hn::Set(Floats(), -std::numeric_limits<float>::infinity());
  for (int64_t r = 0; r < rows.count; ++r) hn::StoreU(none, Floats(), largest + r * kPanel);
  const int64_t lanes = pairs(p.key_width);
  for (int64_t j = 0; j < keys.columns; j += kPanel)
    multiply_words<Product::kLargest, kNumbers>(s.queries + rows.first * p.key_width, p.key_width, rows.count, lanes,
                                                {head.keys + (keys.first + j) * lanes, kPanel},
                                                {{s.scores + rows.first * kKeys + j, kKeys, largest},
                                                 s.query_scales + rows.first,
                                                 head.key_scales + keys.first + j});
}

template <Numbers kNumbers>
void add_word_values(const AttentionProblem& p, int64_t rows, const PackedHead& head, const KeyBlock& keys,
                     const Scratch& s) {
  const int64_t wide = padded_width(p);
  for (int64_t f = 0; f < wide; f += kPanel)
    multiply_words<Product::kAdd, kNumbers>(s.scores, kKeys, rows, pairs(keys.keys),
                                            {head.value(f, keys.first), head.value_stride},
                                            {{s.context + f, wide}, s.weight_scales});
}

// Adds what one block of keys gives to the context, of words.
template <class T, Numbers kNumbers>
void attend_words(const AttentionProblem& p, const Block& block, const PackedHead& head, const KeyRange* ranges,
                  const KeyBlock& keys, const Scratch& s) {
  const BlockScores<T> scores(p, block, ranges, keys, s);
  for (int64_t start = 0; start < block.count; start += kWordsTogether) {
    const Rows rows{start, std::min(kWordsTogether, block.count - start)};
    score_words<kNumbers>(p, head, rows, keys, s);
    for (int64_t r = start; r < start + rows.count; ++r)
      weigh_row(r, scores.finish(r), head.value_scales + keys.first, keys.columns, padded_width(p), s);
    for (int64_t r = start; r < start + rows.count; ++r) round_weights(r, keys.columns, s);
  }
  add_word_values<kNumbers>(p, block.count, head, keys, s);
}

// What one block of keys gives to the context, of floats. Rows go through it together by kTogether: their scores, their
// exponentials, beside the scores of the next rows where there are registers for both, at last their values.
template <class T>
class FloatKeys {
 public:
  FloatKeys(const AttentionProblem& p, const Block& block, const PackedHead& head, const KeyRange* ranges,
            const KeyBlock& keys, const Scratch& s)
      : p_(p), block_(block), head_(head), keys_(keys), s_(s), scores_(p, block, ranges, keys, s) {}

  void attend() {
    for (int64_t first = 0; first < block_.count; first += kTogether) {
      const Rows rows{first, std::min(kTogether, block_.count - first)};
      if (kBesideProducts && keys_.begun && scores_.complete(rows)) {
        multiply_keys<Product::kStore>(p_, head_, rows, keys_.first, keys_.columns, s_, beside_);
        finish_rows();
        wait(rows, true);
        continue;
      }
      multiply_keys<Product::kLargest>(p_, head_, rows, keys_.first, keys_.columns, s_, beside_);
      finish_rows();
      follow_scores(rows);
      if (kBesideProducts && keys_.columns == kKeys) {
        wait(rows, false);
      } else {
        exponentiate_rows(rows, keys_.columns, s_);
      }
    }
    // The first block's are stored.
    if (keys_.start) {
      add_values<Product::kStore>();
    } else {
      add_values<Product::kAdd>();
    }
  }

 private:
  using Beside = std::conditional_t<kBesideProducts, Exponentials, Nothing>;

  // Rows' exponentials are to be computed. If `guessed`, no score was compared with the maximum so far.
  void wait(Rows rows, bool guessed) {
    beside_ = Beside(rows, s_);
    waiting_ = rows;
    guessed_ = guessed;
  }

  // Finishes the exponentials of rows that wait. Where a sum shows that a score may have risen too far, scores are
  // computed again and the maximum follows them.
  HWY_INLINE void finish_rows() {
    if (waiting_.count == 0) return;
    beside_.finish();
    if (guessed_ && !beside_.sums_are_within(1 << static_cast<int>(kRise))) {
      const int64_t first = waiting_.first * kPanel;
      std::copy_n(s_.largest + first, waiting_.count * kPanel, s_.sums + first);
      Nothing nothing;
      multiply_keys<Product::kLargest>(p_, head_, waiting_, keys_.first, keys_.columns, s_, nothing);
      follow_scores(waiting_);
      exponentiate_rows(waiting_, keys_.columns, s_);
    }
    waiting_.count = 0;
  }

  // Steps 3 to 5 for rows whose products are there; their maxima follow.
  HWY_INLINE void follow_scores(Rows rows) const {
    if (scores_.complete(rows) && none_rises(rows)) return;
    for (int64_t r = rows.first; r < rows.first + rows.count; ++r) {
      const float largest = scores_.finish(r);
      if (!follow_largest(r, largest, padded_width(p_), s_)) leave_row(r, s_.scores + r * kKeys, keys_.columns, s_);
    }
  }
  // True if no row has a score that its maximum must follow.
  HWY_INLINE bool none_rises(Rows rows) const {
    const Floats d;
    Vector rise = hn::Zero(d);
    for (int64_t r = rows.first; r < rows.first + rows.count; ++r)
      rise = hn::Max(hn::Sub(load(s_.largest + r * kPanel), hn::Set(d, s_.maximum[r])), rise);
    return hn::AllTrue(d, hn::Le(rise, hn::Set(d, kRise)));
  }

  // Stores weighted values as the context, or adds them to it. What some rows need is done at once: all rows' weights
  // and a part of the values would meet in few sets of the first-level cache.
  template <Product what>
  void add_values() {
    const int64_t wide = padded_width(p_);
    for (int64_t r = 0; r < block_.count; r += kTogether) {
      const int64_t rows = std::min(kTogether, block_.count - r);
      if (r + rows == block_.count) finish_rows();
      for (int64_t f = 0; f < wide; f += kPanel)
        multiply<what, kKeys>(s_.scores + r * kKeys, kKeys, rows, keys_.keys,
                              {head_.value(f, keys_.first), head_.value_stride}, {s_.context + r * wide + f, wide},
                              beside_);
    }
  }

  const AttentionProblem& p_;
  const Block& block_;
  const PackedHead& head_;
  const KeyBlock& keys_;
  const Scratch& s_;
  const BlockScores<T> scores_;
  Beside beside_;
  Rows waiting_{0, 0};
  bool guessed_ = false;
};

// Writes a row of the context. Gives false if it isn't finite: perhaps only by a value that the query doesn't see.
template <class T>
bool write_context(float* from, int64_t n, float factor, T* to) {
  constexpr auto kStep = static_cast<int64_t>(kLanes);
  const Vector f = hn::Set(Floats(), factor);
  Vector worst = hn::Zero(Floats());  // NaN once a number isn't finite
  int64_t written = 0;
  for (int64_t i = 0; i < n; i += kStep) {
    const Vector x = hn::Mul(load(from + i), f);
    worst = hn::Add(worst, hn::Sub(x, x));
    if constexpr (std::is_same_v<T, float>) {
      if (i + kStep <= n) {
        hn::StoreU(x, Floats(), to + i);
        written = i + kStep;
        continue;
      }
    }
    hn::StoreU(x, Floats(), from + i);
  }
  for (int64_t i = written; i < n; ++i) to[i] = static_cast<T>(from[i]);
  return hn::AllTrue(Floats(), hn::Eq(worst, hn::Zero(Floats())));
}

// The keys that a block's queries see: each, and any.
struct SeenKeys {
  KeyRange ranges[kQueries];
  KeyRange all;
};

// Adds up what a block's queries take from the keys that they see.
template <class T, Numbers kNumbers>
void attend_seen(const AttentionProblem& p, const Block& block, const PackedHead& head, const SeenKeys& seen,
                 const Scratch& s) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  load_queries<T>(p, block, s);
  if constexpr (kNumbers != Numbers::kFloats) round_queries(p, block.count, s);
  if (kNumbers != Numbers::kFloats || seen.all.first >= seen.all.last)
    std::fill_n(s.context, block.count * padded_width(p), 0.0F);
  std::fill_n(s.maximum, block.count, -kInfinity);
  std::fill_n(s.from, block.count, kInfinity);
  std::fill_n(s.sums, block.count * kPanel, 0.0F);
  const int64_t start = seen.all.first / kPanel * kPanel;
  bool begun = false;
  for (int64_t first = start; first < seen.all.last; first += kKeys) {
    const int64_t count = std::min(kKeys, seen.all.last - first);
    begun = begun || std::all_of(s.from, s.from + block.count, [](float from) { return std::isfinite(from); });
    const KeyBlock keys{first, count, panels(count) * kPanel, first == start, begun && count == kKeys};
    if constexpr (kNumbers == Numbers::kFloats) {
      FloatKeys<T>(p, block, head, seen.ranges, keys, s).attend();
    } else {
      attend_words<T, kNumbers>(p, block, head, seen.ranges, keys, s);
    }
  }
}

// One block of queries against all keys that it sees. See attention_blocks.h.
template <class T, Numbers kNumbers = Numbers::kFloats>
void attend(const AttentionProblem& p, Block block, const PackedHead& head, uint8_t* left_over, const Scratch& s) {
  SeenKeys seen;
  seen.all = see_keys(p, block, seen.ranges);
  block.unit = 1 / std::numbers::ln2;
  attend_seen<T, kNumbers>(p, block, head, seen, s);
  for (int64_t r = 0; r < block.count; ++r) s.factor[r] = 1 / sum_of(load(s.sums + r * kPanel));
  if (shows_scores(p)) {
    block.unit = 1;
    load_queries<T>(p, block, s);
    show_scores<T>(p, block, head, seen.ranges, s);
  } else if (p.weights) {
    show_weights<T>(p, block, head, seen.ranges, seen.all, s);
  }
  for (int64_t r = 0; r < block.count; ++r) {
    const int64_t t = block.first + r;
    const bool complete =
        s.maximum[r] != -std::numeric_limits<float>::infinity() && !(p.weights && !std::isfinite(s.factor[r]));
    if (!complete || !write_context(s.context + r * padded_width(p), p.value_width, s.factor[r],
                                    p.context.mutable_row<T>(block.b, block.h, t)))
      left_over[(block.b * p.heads + block.h) * p.query_length + t] = 1;
  }
}

AttentionNumbers fastest_numbers() {
  if constexpr (!kHasWords) return Numbers::kFloats;
  return has_vnni() ? Numbers::kVnniWords : Numbers::kWords;
}

void attend_float(const AttentionProblem& p, const Block& block, const PackedHead& head, uint8_t* left,
                  const Scratch& s) {
  switch (p.numbers) {
    case Numbers::kFloats:
      return attend<float>(p, block, head, left, s);
    case Numbers::kWords:
      return attend<float, Numbers::kWords>(p, block, head, left, s);
    case Numbers::kVnniWords:
      return attend<float, Numbers::kVnniWords>(p, block, head, left, s);
  }
}
void attend_half(const AttentionProblem& p, const Block& block, const PackedHead& head, uint8_t* left,
                 const Scratch& s) {
  attend<Float16>(p, block, head, left, s);
}
void attend_brain(const AttentionProblem& p, const Block& block, const PackedHead& head, uint8_t* left,
                  const Scratch& s) {
  attend<BFloat16>(p, block, head, left, s);
}

}  // namespace HWY_NAMESPACE
}  // namespace blocked
}  // namespace attune
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace attune {
namespace blocked {

HWY_EXPORT(fastest_numbers);
HWY_EXPORT(attend_float);
HWY_EXPORT(attend_half);
HWY_EXPORT(attend_brain);

AttentionNumbers fastest_numbers() { return HWY_DYNAMIC_DISPATCH(fastest_numbers)(); }

void attend(const AttentionProblem& p, const Block& block, const PackedHead& head, uint8_t* left_over,
            const Scratch& s) {
  if (p.type == DataType::kFloat16) return HWY_DYNAMIC_DISPATCH(attend_half)(p, block, head, left_over, s);
  if (p.type == DataType::kBFloat16) return HWY_DYNAMIC_DISPATCH(attend_brain)(p, block, head, left_over, s);
  return HWY_DYNAMIC_DISPATCH(attend_float)(p, block, head, left_over, s);
}

}  // namespace blocked
}  // namespace attune

#endif  // HWY_ONCE
