// Blocks of queries against packed keys and values of one head. Internal to attention_blocked.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ops/support/attention_problem.h"

namespace attune::blocked {

constexpr int64_t kPanel = 32;         // columns of a packed panel, in floats
constexpr int64_t kQueries = 96;       // rows of a block at most
constexpr int64_t kKeys = 4 * kPanel;  // keys of a block

// Products of rounded operands are of words, two of which share a lane: neighbouring numbers of a query and a key, a
// column's values of neighbouring keys. A query, a key, a value and a query's weights of a block of keys have a scale
// each, so that no row depends on keys that it doesn't see. Sums fit in 32 bits: over a row of queries and keys, and
// over a block of keys of weights and values.
constexpr int64_t kMostRounded = 512;  // numbers of a row
constexpr int kWeightBits = 13;
constexpr float kMostValue = 2047;
static_assert((2047LL << kWeightBits) * kKeys <= INT32_MAX);
inline float most_of_key(int64_t width) {
  return std::min(32767.0F, static_cast<float>(std::floor(std::sqrt(INT32_MAX / static_cast<double>(width)))));
}

constexpr int64_t pairs(int64_t n) { return (n + 1) / 2; }
// The lanes of a row of `n` numbers.
inline int64_t row_lanes(const AttentionProblem& p, int64_t n) { return p.rounded() ? pairs(n) : n; }

constexpr int64_t panels(int64_t n) { return (n + kPanel - 1) / kPanel; }

// Rows of a block. Many, if so the keys of a head pass through the caches less often and blocks needn't follow a
// diagonal.
inline int64_t block_rows(const AttentionProblem& p) {
  constexpr int64_t kManyQueries = 1024;
  const bool diagonal = p.config->causal || p.config->window_left >= 0 || p.config->window_right >= 0;
  return p.query_length >= kManyQueries && !diagonal ? kQueries : kQueries / 2;
}

constexpr int64_t padded_width(const AttentionProblem& p) { return panels(p.value_width) * kPanel; }

// Keys and values of key/value head g of batch b, for products by panels. Rounded ones are pairs of words in the place
// of floats, half as many.
struct PackedHead {
  float* keys;                     // panels(Tk) panels (Ek, kPanel): keys are columns
  float* packed_values = nullptr;  // panels(F) panels (Tk, kPanel); null: values are read where they lie
  const float* values;
  int64_t value_stride, value_panel_stride;  // from value (or two) to value, from panel to panel
  bool rounded;
  float* key_scales = nullptr;  // of each key and value, if rounded
  float* value_scales = nullptr;

  // True if values needn't be packed: floats in rows at equal distances that fill their panels. Rows across cache lines
  // cost more than packing where there are many queries.
  static bool reads_values(const AttentionProblem& p) {
    constexpr int64_t kManyQueries = 512;
    const HeadsView& v = values_view(p);
    return !p.rounded() && p.memory_type == DataType::kFloat && p.value_width % kPanel == 0 && !v.index &&
           (p.values[0].length == 0 || p.values[1].length == 0) && (p.query_length < kManyQueries || fills_lines(v));
  }
  static size_t numbers(const AttentionProblem& p) {
    const int64_t padded_keys = panels(p.key_length) * kPanel;
    return static_cast<size_t>(padded_keys * row_lanes(p, p.key_width) + (p.rounded() ? 2 * padded_keys : 0) +
                               (reads_values(p) ? 0 : padded_width(p) * row_lanes(p, p.key_length)));
  }
  PackedHead(const AttentionProblem& p, int64_t b, int64_t g, float* memory) : keys(memory), rounded(p.rounded()) {
    if (reads_values(p)) {
      const HeadsView& v = values_view(p);
      values = v.row<float>(b, g, 0);
      value_stride = v.row_stride;
      value_panel_stride = kPanel;
    } else {
      const int64_t padded_keys = panels(p.key_length) * kPanel;
      values = packed_values = memory + padded_keys * row_lanes(p, p.key_width);
      value_stride = kPanel;
      value_panel_stride = row_lanes(p, p.key_length) * kPanel;
      if (rounded) {
        key_scales = packed_values + padded_width(p) / kPanel * value_panel_stride;
        value_scales = key_scales + padded_keys;
      }
    }
  }
  static const HeadsView& values_view(const AttentionProblem& p) { return p.values[p.values[0].length == 0 ? 1 : 0]; }
  static bool fills_lines(const HeadsView& v) {
    constexpr uintptr_t kLine = 64;
    constexpr int64_t kFloats = kLine / sizeof(float);
    return reinterpret_cast<uintptr_t>(v.data) % kLine == 0 && v.row_stride % kFloats == 0 &&
           v.head_stride % kFloats == 0 && v.batch_stride % kFloats == 0;
  }
  // Number `f`, the first of a panel, of value i (an even one, if rounded).
  const float* value(int64_t f, int64_t i) const {
    return values + f / kPanel * value_panel_stride + (rounded ? i / 2 : i) * value_stride;
  }
};

// Memory of one thread; R is block_rows().
struct Scratch {
  float* scores;   // (R, kKeys)
  float* context;  // (R, padded_width)
  float* queries;  // (R, Ek), scaled
  float* maximum;  // R
  float* from;     // R: what exponents are counted from: the maximum, or +inf where there is none
  float* sums;     // (R, kPanel): of exponentials, by lanes of a vector
  float* largest;  // (R, kPanel): scores (rounded: then weights) of one block of keys, by lanes
  float* factor;   // R: 1 / the whole sum
  // Rounded, R each: scales of queries, and of weights for one block of keys; `scores` and `queries` hold pairs
  // of words then.
  float *query_scales, *weight_scales;

  static size_t numbers(const AttentionProblem& p) {
    return static_cast<size_t>((block_rows(p) * (kKeys + padded_width(p) + p.key_width + 2 * kPanel + 5) + 15) / 16 *
                               16);
  }
  Scratch(const AttentionProblem& p, float* memory) {
    const int64_t rows = block_rows(p);
    scores = memory;
    context = scores + rows * kKeys;
    queries = context + rows * padded_width(p);
    maximum = queries + rows * p.key_width;
    factor = maximum + rows;
    from = factor + rows;
    query_scales = from + rows;
    weight_scales = query_scales + rows;
    sums = weight_scales + rows;
    largest = sums + rows * kPanel;
  }
};

// Queries [first, first + count) of head h of batch b.
struct Block {
  int64_t b, h, first, count;
  bool masked = false;  // a mask is to be applied; set by attend()
  double unit = 1;      // in which scores are counted: 1 / ln 2 makes them octaves
};

// True if scores are put out, not weights; then all keys must be packed.
inline bool shows_scores(const AttentionProblem& p) {
  const AttentionWeights kind = p.config->weights;
  return p.weights && kind != AttentionWeights::kNormalized && kind != AttentionWeights::kHeadMean;
}

// Those whose products are fastest with the instruction set in use.
AttentionNumbers fastest_numbers();

// Packs keys and values [0, last) of key/value head g of batch b.
void pack(const AttentionProblem& p, int64_t b, int64_t g, int64_t last, const PackedHead& head);

// One block of queries against all keys that it sees, which are packed. Marks rows in `left_over` that see nothing or
// whose result isn't finite, and, if weights are wanted, those that see something that isn't finite.
void attend(const AttentionProblem& p, const Block& block, const PackedHead& head, uint8_t* left_over,
            const Scratch& s);

}  // namespace attune::blocked
