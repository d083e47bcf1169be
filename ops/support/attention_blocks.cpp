#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/support/attention_blocks.cpp"

#include "hwy/foreach_target.h"  // compiles this file once per instruction set
//
#include <algorithm>
#include <cmath>
#include <limits>

#include "hwy/cache_control.h"
#include "ops/support/attention_blocks.h"
#include "ops/support/attention_mask.h"
#include "ops/support/attention_vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attune {
namespace blocked {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using namespace attention_vectors::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace)

constexpr size_t kLanes = hn::MaxLanes(Floats());
constexpr size_t kVectors = static_cast<size_t>(kPanel) / kLanes;
// Rows of a product whose accumulators fit into the registers.
constexpr int kRows = kVectors <= 2 ? 8 : kVectors <= 4 ? 3 : 1;

// c[r][j] (+)= sum_k a[r][k] panel[k][j], r < R, j < kPanel. Rows of a and c are a_stride and c_stride apart.
template <int R, bool accumulate>
HWY_INLINE void multiply_rows(const float* a, int64_t a_stride, int64_t inner, const float* panel, float* c,
                              int64_t c_stride) {
  Vector sums[R][kVectors];
  for (int r = 0; r < R; ++r)
    for (size_t v = 0; v < kVectors; ++v)
      sums[r][v] = accumulate ? load(c + r * c_stride + static_cast<int64_t>(v * kLanes)) : hn::Zero(Floats());
  for (int64_t k = 0; k < inner; ++k, panel += kPanel) {
    Vector factors[R];
    for (int r = 0; r < R; ++r) factors[r] = hn::Set(Floats(), a[r * a_stride + k]);
    for (size_t v = 0; v < kVectors; ++v) {
      const Vector b = load(panel + v * kLanes);
      for (int r = 0; r < R; ++r) sums[r][v] = hn::MulAdd(factors[r], b, sums[r][v]);
    }
  }
  for (int r = 0; r < R; ++r)
    for (size_t v = 0; v < kVectors; ++v)
      hn::StoreU(sums[r][v], Floats(), c + r * c_stride + static_cast<int64_t>(v * kLanes));
}

template <bool accumulate>
void multiply(const float* a, int64_t a_stride, int64_t rows, int64_t inner, const float* panel, float* c,
              int64_t c_stride) {
  int64_t r = 0;
  for (; r + kRows <= rows; r += kRows)
    multiply_rows<kRows, accumulate>(a + r * a_stride, a_stride, inner, panel, c + r * c_stride, c_stride);
  for (; r < rows; ++r)
    multiply_rows<1, accumulate>(a + r * a_stride, a_stride, inner, panel, c + r * c_stride, c_stride);
}

// Calls f(row, i) for keys or values [0, last) of head h.
template <class T, class F>
void for_each_row(const std::array<HeadsView, 2>& operand, int64_t b, int64_t g, int64_t last, F&& f) {
  int64_t start = 0;
  for (const HeadsView& v : operand) {
    for (int64_t i = 0; i < v.length && start + i < last; ++i) f(v.row<T>(b, g, i), start + i);
    start += v.length;
  }
}

// Four rows of four floats become four columns: to[e * kPanel + r] = rows[r][e].
HWY_INLINE void transpose_four(const float* const (&rows)[4], float* to) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t e = 0; e < 4; ++e)
    for (int64_t r = 0; r < 4; ++r) to[e * kPanel + r] = rows[r][e];
#else
  const hn::Full128<float> d;
  const hn::Repartition<double, decltype(d)> pairs;
  const auto r0 = hn::LoadU(d, rows[0]), r1 = hn::LoadU(d, rows[1]), r2 = hn::LoadU(d, rows[2]),
             r3 = hn::LoadU(d, rows[3]);
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1)),
             low23 = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3)),
             high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1)),
             high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)), d, to);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)), d, to + kPanel);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)), d, to + 2 * kPanel);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)), d, to + 3 * kPanel);
#endif
}

// Keys [0, last) of a head as columns, zeros behind them in the last panel.
template <class T>
void pack_keys(const AttentionProblem& p, int64_t b, int64_t g, int64_t last, const PackedHead& s) {
  const int64_t width = p.key_width;
  const auto column = [&](int64_t i) { return s.keys + i / kPanel * kPanel * width + i % kPanel; };
  // Floats four by four; `waiting` rows of a group of four have come.
  const float* four[4] = {};
  int64_t waiting = 0;
  for_each_row<T>(p.keys, b, g, last, [&](const T* row, int64_t i) {
    if constexpr (std::is_same_v<T, float>) {
      four[waiting++] = row;
      if (waiting < 4 && i + 1 < last) return;
      const int64_t first = i + 1 - waiting;
      int64_t e = 0;
      if (waiting == 4)
        for (; e + 4 <= width; e += 4)
          transpose_four({four[0] + e, four[1] + e, four[2] + e, four[3] + e}, column(first) + e * kPanel);
      for (; e < width; ++e)
        for (int64_t r = 0; r < waiting; ++r) column(first)[e * kPanel + r] = four[r][e];
      waiting = 0;
    } else {
      for (int64_t e = 0; e < width; ++e) column(i)[e * kPanel] = static_cast<float>(row[e]);
    }
  });
  for (int64_t i = last; i < panels(last) * kPanel; ++i)
    for (int64_t e = 0; e < width; ++e) column(i)[e * kPanel] = 0;
}

// Packs keys and values [0, last) of a head. Gives false if a value isn't finite.
template <class T>
bool pack(const AttentionProblem& p, int64_t b, int64_t g, int64_t last, const PackedHead& s) {
  pack_keys<T>(p, b, g, last, s);
  const size_t values = static_cast<size_t>(p.value_width), lanes = kLanes;
  Vector worst = hn::Zero(Floats());  // NaN once a value isn't finite
  for_each_row<T>(p.values, b, g, last, [&](const T* row, int64_t i) {
    for (size_t f = 0; f < values; f += lanes) {
      const size_t n = std::min(lanes, values - f);
      const Vector v = n == lanes ? load(row + f) : load_first(row + f, n);
      worst = hn::Add(worst, hn::Sub(v, v));
      float* to =
          s.values + (static_cast<int64_t>(f) / kPanel * p.key_length + i) * kPanel + static_cast<int64_t>(f) % kPanel;
      hn::StoreU(v, Floats(), to);
    }
    // The rest of the last panel is never part of a result, but must be a number.
    for (size_t f = (values + lanes - 1) / lanes * lanes; f < static_cast<size_t>(padded_width(p)); f += lanes)
      hn::StoreU(
          hn::Zero(Floats()), Floats(),
          s.values + (static_cast<int64_t>(f) / kPanel * p.key_length + i) * kPanel + static_cast<int64_t>(f) % kPanel);
  });
  return hn::AllTrue(Floats(), hn::Eq(worst, hn::Zero(Floats())));
}

template <class T>
void load_queries(const AttentionProblem& p, const Block& block, const Scratch& s) {
  const auto scale = static_cast<float>(p.scale);
  for (int64_t r = 0; r < block.count; ++r) {
    const T* query = p.query.row<T>(block.b, block.h, block.first + r);
    float* to = s.queries + r * p.key_width;
    if (p.config->score != AttentionScore::kGeneral) {
      for (int64_t e = 0; e < p.query_width; ++e) to[e] = scale * static_cast<float>(query[e]);
      continue;
    }
    std::fill_n(to, p.key_width, 0.0F);
    const T* w = reinterpret_cast<const T*>(p.w_score) + block.h * p.query_width * p.key_width;
    for (int64_t e = 0; e < p.query_width; ++e, w += p.key_width) {
      const auto q = static_cast<float>(query[e]);
      for (int64_t k = 0; k < p.key_width; ++k) to[k] += q * static_cast<float>(w[k]);
    }
  }
}

HWY_INLINE float largest_of(const float* x, int64_t n) {
  Vector m = load(x);
  for (int64_t i = static_cast<int64_t>(kLanes); i < n; i += static_cast<int64_t>(kLanes)) m = hn::Max(m, load(x + i));
  return hn::GetLane(hn::MaxOfLanes(Floats(), m));
}

// x[i] = exp(x[i] - maximum); gives the sums by lanes. n is a multiple of a vector.
HWY_INLINE Vector exponentials_of(float* x, int64_t n, float maximum) {
  const Vector m = hn::Set(Floats(), maximum);
  Vector sum = hn::Zero(Floats());
  for (int64_t i = 0; i < n; i += static_cast<int64_t>(kLanes)) {
    const Vector e = exp_of_negative(hn::Sub(load(x + i), m));
    hn::StoreU(e, Floats(), x + i);
    sum = hn::Add(sum, e);
  }
  return sum;
}

HWY_INLINE void scale_row(float* x, int64_t n, Vector f) {
  for (int64_t i = 0; i < n; i += static_cast<int64_t>(kLanes)) hn::StoreU(hn::Mul(load(x + i), f), Floats(), x + i);
}

// Adds the constant of head h, which ends step 3.
template <class T>
void add_score_bias(const AttentionProblem& p, int64_t h, float* scores, int64_t n) {
  if (!p.b_score) return;
  const auto offset = static_cast<float>(reinterpret_cast<const T*>(p.b_score)[h]);
  for (int64_t i = 0; i < n; ++i) scores[i] += offset;
}

// Step 4; n is a multiple of a vector.
void cap_scores(const AttentionProblem& p, float* scores, int64_t n) {
  const float cap = p.config->softcap;
  if (!(cap > 0)) return;
  const Vector c = hn::Set(Floats(), cap);
  for (int64_t i = 0; i < n; i += static_cast<int64_t>(kLanes))
    hn::StoreU(hn::Mul(c, tanh_of(hn::Div(load(scores + i), c))), Floats(), scores + i);
}

// A vector of scores with a float mask's, excluded ones -inf; see apply_mask().
HWY_INLINE Vector add_mask(Vector score, Vector bias) {
  const Floats d;
  const Vector excluded = hn::Set(d, -std::numeric_limits<float>::infinity());
  const Vector sum = hn::Add(score, bias);
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
  const auto lanes = static_cast<int64_t>(kLanes);
  Vector largest = hn::Set(Floats(), -std::numeric_limits<float>::infinity());
  int64_t i = 0;
  if (step == 1) {
    for (; i + lanes <= n; i += lanes) {
      const Vector score = load(scores + i);
      const Vector masked = mask.boolean ? keep_seen(score, reinterpret_cast<const uint8_t*>(mask.data) + at + i)
                                         : add_mask(score, load(reinterpret_cast<const T*>(mask.data) + at + i));
      hn::StoreU(masked, Floats(), scores + i);
      largest = hn::Max(largest, masked);
    }
  }
  apply_mask<T>(mask, block.b, block.h, t, {range.first + i, range.last}, scores + i, [](int64_t, bool) {});
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
  add_score_bias<T>(p, block.h, scores + low, high - low);
  if (p.config->softcap > 0) {
    cap_scores(p, scores, n);  // of what isn't seen, too
    std::fill(scores, scores + low, -kInfinity);
    std::fill(scores + high, scores + n, -kInfinity);
  }
  return block.masked ? mask_scores<T>(p, block, t, {first + low, first + high}, scores + low) : largest_of(scores, n);
}

// Products of the block's queries and keys [first, first + columns).
void multiply_keys(const AttentionProblem& p, const Block& block, const PackedHead& head, int64_t first,
                   int64_t columns, const Scratch& s) {
  for (int64_t j = 0; j < columns; j += kPanel)
    multiply<false>(s.queries, p.key_width, block.count, p.key_width, head.keys + (first + j) * p.key_width,
                    s.scores + j, kKeys);
}

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

// Sets the keys that each query of the block may see, as far as ranges tell, and whether a mask says more. Gives the
// range of all.
template <class T>
KeyRange see_keys(const AttentionProblem& p, Block& block, KeyRange* ranges) {
  KeyRange common{0, p.key_length};
  block.masked = p.mask.data != nullptr;
  if (block.masked && p.mask.strides[2] == 0) {
    const CommonMask mask = common_mask<T>(p.mask, block.b, block.h, std::min(p.mask.length, p.key_length));
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
    multiply_keys(p, block, head, first, columns, s);
    for (int64_t r = 0; r < block.count; ++r) {
      float* scores = s.scores + r * kKeys;
      if (kind == AttentionWeights::kBiased) {
        finish_scores<T>(p, block, block.first + r, ranges[r], first, columns, scores);
      } else {
        add_score_bias<T>(p, block.h, scores, columns);
        if (kind == AttentionWeights::kCapped) cap_scores(p, scores, columns);
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
    if (!one_block) multiply_keys(p, block, head, first, columns, s);
    for (int64_t r = 0; r < block.count; ++r) {
      if (!std::isfinite(s.factor[r])) continue;
      float* scores = s.scores + r * kKeys;
      if (!one_block) {
        finish_scores<T>(p, block, block.first + r, ranges[r], first, columns, scores);
        exponentials_of(scores, columns, s.maximum[r]);
      }
      write_weights(p, scores, keys, s.factor[r], row_of(r) + first);
    }
  }
}

// One block of queries against all keys that it sees, which are packed. Marks rows that see nothing, and, if weights
// are wanted, those that see something that isn't finite.
template <class T>
void attend(const AttentionProblem& p, Block block, const PackedHead& head, uint8_t* left_over, const Scratch& s) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const int64_t wide = padded_width(p);
  KeyRange ranges[kQueries];
  const KeyRange all = see_keys<T>(p, block, ranges);
  load_queries<T>(p, block, s);
  std::fill_n(s.context, block.count * wide, 0.0F);
  std::fill_n(s.maximum, block.count, -kInfinity);
  std::fill_n(s.sums, block.count * kPanel, 0.0F);
  for (int64_t first = all.first / kPanel * kPanel; first < all.last; first += kKeys) {
    const int64_t keys = std::min(kKeys, all.last - first), columns = panels(keys) * kPanel;
    constexpr int64_t kAhead = 8;
    for (int64_t r = 0; r < kAhead; ++r) fetch_mask<T>(p, block, block.first + r, first, keys);
    multiply_keys(p, block, head, first, columns, s);
    for (int64_t r = 0; r < block.count; ++r) {
      float* scores = s.scores + r * kKeys;
      fetch_mask<T>(p, block, block.first + r + kAhead, first, keys);
      const float largest = finish_scores<T>(p, block, block.first + r, ranges[r], first, columns, scores);
      const float maximum = std::max(s.maximum[r], largest);
      if (maximum == -kInfinity) {
        // NaN is no maximum, but is seen.
        if (std::any_of(scores, scores + columns, [](float x) { return std::isnan(x); }))
          s.sums[r * kPanel] = s.maximum[r] = NAN;
        std::fill_n(scores, columns, 0.0F);
        continue;
      }
      Vector sum = load(s.sums + r * kPanel);
      if (s.maximum[r] != maximum) {
        const Vector kept = exp_of_negative(hn::Set(Floats(), s.maximum[r] - maximum));
        sum = hn::Mul(sum, kept);
        scale_row(s.context + r * wide, wide, kept);
        s.maximum[r] = maximum;
      }
      hn::StoreU(hn::Add(sum, exponentials_of(scores, columns, maximum)), Floats(), s.sums + r * kPanel);
    }
    for (int64_t f = 0; f < wide; f += kPanel)
      multiply<true>(s.scores, kKeys, block.count, keys, head.values + (f / kPanel * p.key_length + first) * kPanel,
                     s.context + f, wide);
  }
  for (int64_t r = 0; r < block.count; ++r) s.factor[r] = 1 / sum_of(load(s.sums + r * kPanel));
  if (shows_scores(p)) {
    show_scores<T>(p, block, head, ranges, s);
  } else if (p.weights) {
    show_weights<T>(p, block, head, ranges, all, s);
  }
  for (int64_t r = 0; r < block.count; ++r) {
    const int64_t t = block.first + r;
    if (s.maximum[r] == -kInfinity || (p.weights && !std::isfinite(s.factor[r]))) {
      left_over[(block.b * p.heads + block.h) * p.query_length + t] = 1;
      continue;
    }
    T* to = p.context.mutable_row<T>(block.b, block.h, t);
    const float* from = s.context + r * wide;
    const float factor = s.factor[r];
    for (int64_t f = 0; f < p.value_width; ++f) to[f] = static_cast<T>(from[f] * factor);
  }
}

bool pack_float(const AttentionProblem& p, int64_t b, int64_t g, int64_t last, const PackedHead& head) {
  return pack<float>(p, b, g, last, head);
}
bool pack_half(const AttentionProblem& p, int64_t b, int64_t g, int64_t last, const PackedHead& head) {
  return pack<Float16>(p, b, g, last, head);
}
bool pack_brain(const AttentionProblem& p, int64_t b, int64_t g, int64_t last, const PackedHead& head) {
  return pack<BFloat16>(p, b, g, last, head);
}
void attend_float(const AttentionProblem& p, const Block& block, const PackedHead& head, uint8_t* left,
                  const Scratch& s) {
  attend<float>(p, block, head, left, s);
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

HWY_EXPORT(pack_float);
HWY_EXPORT(pack_half);
HWY_EXPORT(pack_brain);
HWY_EXPORT(attend_float);
HWY_EXPORT(attend_half);
HWY_EXPORT(attend_brain);

bool pack(const AttentionProblem& p, int64_t b, int64_t g, int64_t last, const PackedHead& head) {
  if (p.memory_type == DataType::kFloat16) return HWY_DYNAMIC_DISPATCH(pack_half)(p, b, g, last, head);
  if (p.memory_type == DataType::kBFloat16) return HWY_DYNAMIC_DISPATCH(pack_brain)(p, b, g, last, head);
  return HWY_DYNAMIC_DISPATCH(pack_float)(p, b, g, last, head);
}

void attend(const AttentionProblem& p, const Block& block, const PackedHead& head, uint8_t* left_over,
            const Scratch& s) {
  if (p.type == DataType::kFloat16) return HWY_DYNAMIC_DISPATCH(attend_half)(p, block, head, left_over, s);
  if (p.type == DataType::kBFloat16) return HWY_DYNAMIC_DISPATCH(attend_brain)(p, block, head, left_over, s);
  return HWY_DYNAMIC_DISPATCH(attend_float)(p, block, head, left_over, s);
}

}  // namespace blocked
}  // namespace attune

#endif  // HWY_ONCE
