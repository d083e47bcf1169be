#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/support/attention_blocks.cpp"

#include "hwy/foreach_target.h"  // compiles this file once per instruction set
//
#include <algorithm>
#include <cmath>
#include <limits>

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

// Packs keys and values [0, last) of a head. Gives false if a value isn't finite.
template <class T>
bool pack(const AttentionProblem& p, int64_t b, int64_t g, int64_t last, const PackedHead& s) {
  const int64_t width = p.key_width;
  for_each_row<T>(p.keys, b, g, last, [&](const T* row, int64_t i) {
    float* column = s.keys + i / kPanel * kPanel * width + i % kPanel;
    for (int64_t e = 0; e < width; ++e) column[e * kPanel] = static_cast<float>(row[e]);
  });
  for (int64_t i = last; i < panels(last) * kPanel; ++i)
    for (int64_t e = 0; e < width; ++e) s.keys[i / kPanel * kPanel * width + i % kPanel + e * kPanel] = 0;
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

// x[i] = exp(x[i] - maximum); gives the sum. n is a multiple of a vector.
HWY_INLINE float exponentials_of(float* x, int64_t n, float maximum) {
  const Vector m = hn::Set(Floats(), maximum);
  Vector sum = hn::Zero(Floats());
  for (int64_t i = 0; i < n; i += static_cast<int64_t>(kLanes)) {
    const Vector e = exp_of(hn::Sub(load(x + i), m));
    hn::StoreU(e, Floats(), x + i);
    sum = hn::Add(sum, e);
  }
  return sum_of(sum);
}

HWY_INLINE void scale_row(float* x, int64_t n, float factor) {
  const Vector f = hn::Set(Floats(), factor);
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

// Steps 3 to 5 for one row of scores of keys [first, first + n), of which `range` is seen.
template <class T>
void finish_scores(const AttentionProblem& p, const Block& block, int64_t t, KeyRange range, int64_t first, int64_t n,
                   float* scores) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const int64_t low = std::clamp<int64_t>(range.first - first, 0, n),
                high = std::clamp<int64_t>(range.last - first, low, n);
  std::fill(scores, scores + low, -kInfinity);
  std::fill(scores + high, scores + n, -kInfinity);
  if (low == high) return;
  add_score_bias<T>(p, block.h, scores + low, high - low);
  if (p.config->softcap > 0) {
    cap_scores(p, scores, n);  // of what isn't seen, too
    std::fill(scores, scores + low, -kInfinity);
    std::fill(scores + high, scores + n, -kInfinity);
  }
  if (p.mask.data)
    apply_mask<T>(p.mask, block.b, block.h, t, {first + low, first + high}, scores + low, [](int64_t, bool) {});
}

// Products of the block's queries and keys [first, first + columns).
void multiply_keys(const AttentionProblem& p, const Block& block, const PackedHead& head, int64_t first,
                   int64_t columns, const Scratch& s) {
  for (int64_t j = 0; j < columns; j += kPanel)
    multiply<false>(s.queries, p.key_width, block.count, p.key_width, head.keys + (first + j) * p.key_width,
                    s.scores + j, kKeys);
}

// Scores of the block's queries against keys [first, first + columns), steps 3 to 5.
template <class T>
void score_block(const AttentionProblem& p, const Block& block, const PackedHead& head, const KeyRange* ranges,
                 int64_t first, int64_t columns, const Scratch& s) {
  multiply_keys(p, block, head, first, columns, s);
  for (int64_t r = 0; r < block.count; ++r)
    finish_scores<T>(p, block, block.first + r, ranges[r], first, columns, s.scores + r * kKeys);
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
    if (!one_block) score_block<T>(p, block, head, ranges, first, columns, s);
    for (int64_t r = 0; r < block.count; ++r) {
      const float factor = 1 / s.sum[r];
      if (!std::isfinite(factor)) continue;
      float* scores = s.scores + r * kKeys;
      if (!one_block) exponentials_of(scores, columns, s.maximum[r]);
      write_weights(p, scores, keys, factor, row_of(r) + first);
    }
  }
}

// One block of queries against all keys that it sees, which are packed. Marks rows that see nothing, and, if weights
// are wanted, those that see something that isn't finite.
template <class T>
void attend(const AttentionProblem& p, const Block& block, const PackedHead& head, uint8_t* left_over,
            const Scratch& s) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const int64_t wide = padded_width(p);
  KeyRange ranges[kQueries];
  KeyRange all{p.key_length, 0};
  for (int64_t r = 0; r < block.count; ++r) {
    ranges[r] = visible_keys(p, block.b, block.first + r);
    if (ranges[r].first == ranges[r].last) continue;
    all = {std::min(all.first, ranges[r].first), std::max(all.last, ranges[r].last)};
  }
  load_queries<T>(p, block, s);
  std::fill_n(s.context, block.count * wide, 0.0F);
  std::fill_n(s.maximum, block.count, -kInfinity);
  std::fill_n(s.sum, block.count, 0.0F);
  for (int64_t first = all.first / kPanel * kPanel; first < all.last; first += kKeys) {
    const int64_t keys = std::min(kKeys, all.last - first), columns = panels(keys) * kPanel;
    score_block<T>(p, block, head, ranges, first, columns, s);
    for (int64_t r = 0; r < block.count; ++r) {
      float* scores = s.scores + r * kKeys;
      const float maximum = std::max(s.maximum[r], largest_of(scores, columns));
      if (maximum == -kInfinity) {
        // NaN is no maximum, but is seen.
        if (std::any_of(scores, scores + columns, [](float x) { return std::isnan(x); })) s.sum[r] = s.maximum[r] = NAN;
        std::fill_n(scores, columns, 0.0F);
        continue;
      }
      const float kept = std::exp(s.maximum[r] - maximum);
      s.sum[r] = s.sum[r] * kept + exponentials_of(scores, columns, maximum);
      if (kept != 1) scale_row(s.context + r * wide, wide, kept);
      s.maximum[r] = maximum;
    }
    for (int64_t f = 0; f < wide; f += kPanel)
      multiply<true>(s.scores, kKeys, block.count, keys, head.values + (f / kPanel * p.key_length + first) * kPanel,
                     s.context + f, wide);
  }
  if (shows_scores(p)) {
    show_scores<T>(p, block, head, ranges, s);
  } else if (p.weights) {
    show_weights<T>(p, block, head, ranges, all, s);
  }
  for (int64_t r = 0; r < block.count; ++r) {
    const int64_t t = block.first + r;
    if (s.maximum[r] == -kInfinity || (p.weights && !std::isfinite(1 / s.sum[r]))) {
      left_over[(block.b * p.heads + block.h) * p.query_length + t] = 1;
      continue;
    }
    T* to = p.context.mutable_row<T>(block.b, block.h, t);
    const float* from = s.context + r * wide;
    const float factor = 1 / s.sum[r];
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
  if (p.type == DataType::kFloat16) return HWY_DYNAMIC_DISPATCH(pack_half)(p, b, g, last, head);
  if (p.type == DataType::kBFloat16) return HWY_DYNAMIC_DISPATCH(pack_brain)(p, b, g, last, head);
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
