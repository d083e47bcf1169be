#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/support/attention_pack.cpp"

#include "hwy/foreach_target.h"  // compiles this file once per instruction set
//
#include <algorithm>
#include <cstring>

#include "ops/support/attention_blocks.h"
#include "ops/support/attention_vectors-inl.h"
#include "ops/support/attention_words-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attune {
namespace blocked {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using namespace attention_vectors::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace)

// Calls f(row, i) for keys or values [0, last) of head h.
template <class T, class F>
void for_each_row(const std::array<HeadsView, 2>& operand, int64_t b, int64_t g, int64_t last, F&& f) {
  int64_t start = 0;
  for (const HeadsView& v : operand) {
    for (int64_t i = 0; i < v.length && start + i < last; ++i) f(v.row<T>(b, g, i), start + i);
    start += v.length;
  }
}

#if HWY_TARGET != HWY_SCALAR
// Each block of four lanes of r0 to r3 holds four rows of four floats; its columns go to `to`, kPanel apart.
template <class D>
HWY_INLINE void store_columns(D d, hn::Vec<D> r0, hn::Vec<D> r1, hn::Vec<D> r2, hn::Vec<D> r3, float* to) {
  const hn::Repartition<double, D> pairs;
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1)),
             low23 = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3)),
             high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1)),
             high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)), d, to);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)), d, to + kPanel);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)), d, to + 2 * kPanel);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)), d, to + 3 * kPanel);
}
#endif

// Four rows of four floats become four columns: to[e * kPanel + r] = rows[r][e].
HWY_INLINE void transpose_four(const float* const (&rows)[4], float* to) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t e = 0; e < 4; ++e)
    for (int64_t r = 0; r < 4; ++r) to[e * kPanel + r] = rows[r][e];
#else
  const hn::Full128<float> d;
  store_columns(d, hn::LoadU(d, rows[0]), hn::LoadU(d, rows[1]), hn::LoadU(d, rows[2]), hn::LoadU(d, rows[3]), to);
#endif
}

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
constexpr int64_t kRowsAtOnce = static_cast<int64_t>(kLanes);

// Four floats of each of rows j, 4 + j, 8 + j ...
HWY_INLINE Vector load_fours(const float* const* rows, int64_t j, int64_t e) {
  const hn::Full128<float> four;
  const hn::Full256<float> eight;
  const auto part = [&](int64_t i) HWY_ATTR { return hn::LoadU(four, rows[4 * i + j] + e); };
  const auto low = hn::Combine(eight, part(1), part(0));
#if HWY_TARGET == HWY_AVX3
  return hn::Combine(Floats(), hn::Combine(eight, part(3), part(2)), low);
#else
  return low;
#endif
}

// Numbers [e, e + 4) of as many rows as a vector has lanes become columns: to[i * kPanel + r] = rows[r][e + i].
HWY_INLINE void transpose_rows(const float* const* rows, int64_t e, float* to) {
  store_columns(Floats(), load_fours(rows, 0, e), load_fours(rows, 1, e), load_fours(rows, 2, e),
                load_fours(rows, 3, e), to);
}
#else
constexpr int64_t kRowsAtOnce = 4;
HWY_INLINE void transpose_rows(const float* const* rows, int64_t e, float* to) {
  transpose_four({rows[0] + e, rows[1] + e, rows[2] + e, rows[3] + e}, to);
}
#endif

// Keys [0, last) of a head as columns, zeros behind them in the last panel.
template <class T>
void pack_keys(const AttentionProblem& p, int64_t b, int64_t g, int64_t last, const PackedHead& s) {
  const int64_t width = p.key_width;
  const auto column = [&](int64_t i) { return s.keys + i / kPanel * kPanel * width + i % kPanel; };
  // Of floats so many rows at once; `waiting` of them have come.
  const float* rows[kRowsAtOnce] = {};
  int64_t waiting = 0;
  for_each_row<T>(p.keys, b, g, last, [&](const T* row, int64_t i) {
    if constexpr (std::is_same_v<T, float>) {
      rows[waiting++] = row;
      if (waiting < kRowsAtOnce && i + 1 < last) return;
      std::fill(rows + waiting, rows + kRowsAtOnce, row);  // zeros follow where these go
      float* const to = column(i + 1 - waiting);
      int64_t e = 0;
      for (; e + 4 <= width; e += 4) transpose_rows(rows, e, to + e * kPanel);
      for (; e < width; ++e)
        for (int64_t r = 0; r < waiting; ++r) to[e * kPanel + r] = rows[r][e];
      waiting = 0;
    } else {
      for (int64_t e = 0; e < width; ++e) column(i)[e * kPanel] = static_cast<float>(row[e]);
    }
  });
  const int64_t missing = panels(last) * kPanel - last;
  if (missing > 0)
    for (int64_t e = 0; e < width; ++e) std::fill_n(column(last) + e * kPanel, missing, 0.0F);
}

template <class T>
void pack_values(const AttentionProblem& p, int64_t b, int64_t g, int64_t last, const PackedHead& s) {
  const size_t values = static_cast<size_t>(p.value_width), lanes = kLanes;
  const auto place = [&](int64_t i, size_t f) {
    return s.packed_values + (static_cast<int64_t>(f) / kPanel * p.key_length + i) * kPanel +
           static_cast<int64_t>(f) % kPanel;
  };
  for_each_row<T>(p.values, b, g, last, [&](const T* row, int64_t i) {
    for (size_t f = 0; f < values; f += lanes) {
      const size_t n = std::min(lanes, values - f);
      hn::StoreU(n == lanes ? load(row + f) : load_first(row + f, n), Floats(), place(i, f));
    }
    // The rest of the last panel is never part of a result, but must be a number.
    for (size_t f = (values + lanes - 1) / lanes * lanes; f < static_cast<size_t>(padded_width(p)); f += lanes)
      hn::StoreU(hn::Zero(Floats()), Floats(), place(i, f));
  });
}

// Keys [0, last) of a head as columns of pairs of words.
template <class T>
void round_keys(const AttentionProblem& p, int64_t b, int64_t g, int64_t last, const PackedHead& s) {
  const int64_t lanes = pairs(p.key_width), end = panels(last) * kPanel;
  const float most = most_of_key(p.key_width);
  HWY_ALIGN int16_t four[4][kMostRounded] = {};
  // Four keys from `first` on, of which `four` holds those that are there.
  const auto store = [&](int64_t first) {
    float* const to = s.keys + first / kPanel * kPanel * lanes + first % kPanel;
    const auto lane = [&](int64_t r, int64_t e) { return reinterpret_cast<const float*>(four[r]) + e; };
    int64_t e = 0;
    for (; e + 4 <= lanes; e += 4) transpose_four({lane(0, e), lane(1, e), lane(2, e), lane(3, e)}, to + e * kPanel);
    for (; e < lanes; ++e)
      for (int64_t r = 0; r < 4; ++r) std::memcpy(to + e * kPanel + r, lane(r, e), sizeof(float));
  };
  for_each_row<T>(p.keys, b, g, last, [&](const T* row, int64_t i) {
    s.key_scales[i] = round_row(row, p.key_width, most, four[i % 4]);
    if (i % 4 == 3) store(i - 3);
  });
  std::fill(s.key_scales + last, s.key_scales + end, 0.0F);
  for (int64_t i = last; i < end; ++i) {
    std::fill_n(four[i % 4], 2 * lanes, int16_t{0});
    if (i % 4 == 3) store(i - 3);
  }
}

// Values [0, last) of a head: lanes hold a column's words of two keys.
template <class T>
void round_values(const AttentionProblem& p, int64_t b, int64_t g, int64_t last, const PackedHead& s) {
  HWY_ALIGN int16_t two[2][kMostRounded] = {};
  const auto store = [&](int64_t first) {
    for (int64_t f = 0; f < padded_width(p); f += kPanel) {
      float* const to = s.packed_values + f / kPanel * s.value_panel_stride + first / 2 * kPanel;
      for (int64_t c = 0; c < kPanel; c += static_cast<int64_t>(kLanes))
        store_pairs(two[0] + f + c, two[1] + f + c, to + c);
    }
  };
  for_each_row<T>(p.values, b, g, last, [&](const T* row, int64_t i) {
    s.value_scales[i] = round_row(row, p.value_width, kMostValue, two[i % 2]);
    if (i % 2 == 1) store(i - 1);
  });
  std::fill(s.value_scales + last, s.value_scales + panels(last) * kPanel, 0.0F);
  if (last % 2 == 1) {
    std::fill_n(two[1], p.value_width, int16_t{0});
    store(last - 1);
  }
}

template <class T>
void pack(const AttentionProblem& p, int64_t b, int64_t g, int64_t last, const PackedHead& s) {
  if (s.rounded) {
    round_keys<T>(p, b, g, last, s);
    return round_values<T>(p, b, g, last, s);
  }
  pack_keys<T>(p, b, g, last, s);
  if (s.packed_values) pack_values<T>(p, b, g, last, s);
}

void pack_float(const AttentionProblem& p, int64_t b, int64_t g, int64_t last, const PackedHead& head) {
  pack<float>(p, b, g, last, head);
}
void pack_half(const AttentionProblem& p, int64_t b, int64_t g, int64_t last, const PackedHead& head) {
  pack<Float16>(p, b, g, last, head);
}
void pack_brain(const AttentionProblem& p, int64_t b, int64_t g, int64_t last, const PackedHead& head) {
  pack<BFloat16>(p, b, g, last, head);
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

void pack(const AttentionProblem& p, int64_t b, int64_t g, int64_t last, const PackedHead& head) {
  if (p.memory_type == DataType::kFloat16) return HWY_DYNAMIC_DISPATCH(pack_half)(p, b, g, last, head);
  if (p.memory_type == DataType::kBFloat16) return HWY_DYNAMIC_DISPATCH(pack_brain)(p, b, g, last, head);
  return HWY_DYNAMIC_DISPATCH(pack_float)(p, b, g, last, head);
}

}  // namespace blocked
}  // namespace attune

#endif  // HWY_ONCE
