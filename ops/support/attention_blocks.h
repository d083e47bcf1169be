// Blocks of queries against packed keys and values of one head. Internal to attention_blocked.h.
#pragma once

#include "ops/support/attention_problem.h"

namespace attune::blocked {

constexpr int64_t kPanel = 32;         // columns of a packed panel, in floats
constexpr int64_t kQueries = 48;       // rows of a block
constexpr int64_t kKeys = 4 * kPanel;  // keys of a block

constexpr int64_t panels(int64_t n) { return (n + kPanel - 1) / kPanel; }

constexpr int64_t padded_width(const AttentionProblem& p) { return panels(p.value_width) * kPanel; }

// Keys and values of one head, for products by panels.
struct PackedHead {
  float* keys;    // panels(Tk) panels (Ek, kPanel): keys are columns
  float* values;  // panels(F) panels (Tk, kPanel)

  static size_t numbers(const AttentionProblem& p) {
    return static_cast<size_t>(panels(p.key_length) * kPanel * p.key_width + padded_width(p) * p.key_length);
  }
  PackedHead(const AttentionProblem& p, float* memory)
      : keys(memory), values(memory + panels(p.key_length) * kPanel * p.key_width) {}
};

// Memory of one thread.
struct Scratch {
  float* scores;   // (kQueries, kKeys)
  float* context;  // (kQueries, padded_width)
  float* queries;  // (kQueries, Ek), scaled
  float* maximum;  // kQueries
  float* sums;     // (kQueries, kPanel): of exponentials, by lanes of a vector
  float* factor;   // kQueries: 1 / the whole sum

  static size_t numbers(const AttentionProblem& p) {
    return static_cast<size_t>((kQueries * (kKeys + padded_width(p) + p.key_width + kPanel + 2) + 15) / 16 * 16);
  }
  Scratch(const AttentionProblem& p, float* memory) {
    scores = memory;
    context = scores + kQueries * kKeys;
    queries = context + kQueries * padded_width(p);
    maximum = queries + kQueries * p.key_width;
    factor = maximum + kQueries;
    sums = factor + kQueries;
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

// Packs keys and values [0, last) of key/value head g of batch b. Gives false if a value isn't finite.
bool pack(const AttentionProblem& p, int64_t b, int64_t g, int64_t last, const PackedHead& head);

// One block of queries against all keys that it sees, which are packed. Marks rows in `left_over` that see nothing,
// and, if weights are wanted, those that see something that isn't finite.
void attend(const AttentionProblem& p, const Block& block, const PackedHead& head, uint8_t* left_over,
            const Scratch& s);

}  // namespace attune::blocked
