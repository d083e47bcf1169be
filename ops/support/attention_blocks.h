// Blocks of queries against packed keys and values of one head. Internal to attention_blocked.h.
#pragma once

#include "ops/support/attention_problem.h"

namespace attune::blocked {

constexpr int64_t kPanel = 32;         // columns of a packed panel, in floats
constexpr int64_t kQueries = 48;       // rows of a block
constexpr int64_t kKeys = 4 * kPanel;  // keys of a block

constexpr int64_t panels(int64_t n) { return (n + kPanel - 1) / kPanel; }

constexpr int64_t padded_width(const AttentionProblem& p) { return panels(p.value_width) * kPanel; }

// Keys and values of key/value head g of batch b, for products by panels.
struct PackedHead {
  float* keys;                     // panels(Tk) panels (Ek, kPanel): keys are columns
  float* packed_values = nullptr;  // panels(F) panels (Tk, kPanel); null: values are read where they lie
  const float* values;
  int64_t value_stride, value_panel_stride;  // from value to value, from panel to panel

  // True if values needn't be packed: floats in rows at equal distances that fill their panels. Rows across cache lines
  // cost more than packing where there are many queries.
  static bool reads_values(const AttentionProblem& p) {
    constexpr int64_t kManyQueries = 512;
    const HeadsView& v = values_view(p);
    return p.memory_type == DataType::kFloat && p.value_width % kPanel == 0 && !v.index &&
           (p.values[0].length == 0 || p.values[1].length == 0) && (p.query_length < kManyQueries || fills_lines(v));
  }
  static size_t numbers(const AttentionProblem& p) {
    return static_cast<size_t>(panels(p.key_length) * kPanel * p.key_width +
                               (reads_values(p) ? 0 : padded_width(p) * p.key_length));
  }
  PackedHead(const AttentionProblem& p, int64_t b, int64_t g, float* memory) : keys(memory) {
    if (reads_values(p)) {
      const HeadsView& v = values_view(p);
      values = v.row<float>(b, g, 0);
      value_stride = v.row_stride;
      value_panel_stride = kPanel;
    } else {
      values = packed_values = memory + panels(p.key_length) * kPanel * p.key_width;
      value_stride = kPanel;
      value_panel_stride = p.key_length * kPanel;
    }
  }
  static const HeadsView& values_view(const AttentionProblem& p) { return p.values[p.values[0].length == 0 ? 1 : 0]; }
  static bool fills_lines(const HeadsView& v) {
    constexpr uintptr_t kLine = 64;
    constexpr int64_t kFloats = kLine / sizeof(float);
    return reinterpret_cast<uintptr_t>(v.data) % kLine == 0 && v.row_stride % kFloats == 0 &&
           v.head_stride % kFloats == 0 && v.batch_stride % kFloats == 0;
  }
  // Number `f`, the first of a panel, of value i.
  const float* value(int64_t f, int64_t i) const { return values + f / kPanel * value_panel_stride + i * value_stride; }
};

// Memory of one thread.
struct Scratch {
  float* scores;   // (kQueries, kKeys)
  float* context;  // (kQueries, padded_width)
  float* queries;  // (kQueries, Ek), scaled
  float* maximum;  // kQueries
  float* sums;     // (kQueries, kPanel): of exponentials, by lanes of a vector
  float* largest;  // (kQueries, kPanel): scores of one block of keys, by lanes
  float* factor;   // kQueries: 1 / the whole sum

  static size_t numbers(const AttentionProblem& p) {
    return static_cast<size_t>((kQueries * (kKeys + padded_width(p) + p.key_width + 2 * kPanel + 2) + 15) / 16 * 16);
  }
  Scratch(const AttentionProblem& p, float* memory) {
    scores = memory;
    context = scores + kQueries * kKeys;
    queries = context + kQueries * padded_width(p);
    maximum = queries + kQueries * p.key_width;
    factor = maximum + kQueries;
    sums = factor + kQueries;
    largest = sums + kQueries * kPanel;
  }
};

// Queries [first, first + count) of head h of batch b.
struct Block {
  int64_t b, h, first, count;
  bool masked = false;  // a mask is to be applied; set by attend()
};

// True if scores are put out, not weights; then all keys must be packed.
inline bool shows_scores(const AttentionProblem& p) {
  const AttentionWeights kind = p.config->weights;
  return p.weights && kind != AttentionWeights::kNormalized && kind != AttentionWeights::kHeadMean;
}

// Packs keys and values [0, last) of key/value head g of batch b.
void pack(const AttentionProblem& p, int64_t b, int64_t g, int64_t last, const PackedHead& head);

// One block of queries against all keys that it sees, which are packed. Marks rows in `left_over` that see nothing or
// whose result isn't finite, and, if weights are wanted, those that see something that isn't finite.
void attend(const AttentionProblem& p, const Block& block, const PackedHead& head, uint8_t* left_over,
            const Scratch& s);

}  // namespace attune::blocked
