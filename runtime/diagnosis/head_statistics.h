// Sums over the calls of attentions. Internal to the diagnosis.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "runtime/diagnosis/diagnosis.h"

namespace attune {

class HeadStatistics {
 public:
  // `is_padding`: per source of the caller and position, beyond what masks say.
  explicit HeadStatistics(std::vector<std::vector<bool>> is_padding) : is_padding_(std::move(is_padding)) {}

  void add(const AttentionCall& call);
  std::vector<HeadDiagnosis> results(const DiagnosisBounds& bounds) const;
  // Cross-attention per source and real position: the mean over heads and layers, summed over the output's tokens.
  std::vector<std::vector<double>> coverage() const;
  bool empty() const { return layers_.empty(); }

 private:
  // What one source has had of one head.
  struct PerSource {
    std::vector<double> received;  // weight per position
    std::vector<double> covered;   // of that from queries that gave a token of the output (cross-attention)
    double queries = 0;
    double t = 0, c = 0, tt = 0, cc = 0, tc = 0;  // of query positions t and centres of attention c
  };
  struct Head {
    size_t queries = 0, padded_queries = 0;
    double entropy = 0, concentrated = 0, largest = 0, padding = 0, squares = 0, self = 0, previous = 0, next = 0;
    size_t asked = 0;  // queries, also those that see one position
    std::map<size_t, PerSource> sources;
  };
  struct Layer {
    std::vector<Head> heads;
    std::vector<std::vector<float>> grams;  // per head W Wᵀ of its rows of the output projection; empty: identity
    std::map<size_t, size_t> asked;         // queries that a source has had
  };
  using Key = std::tuple<bool, AttentionKind, size_t>;  // decoder, kind, layer

  struct Row {
    const float* weights;
    size_t keys;
    size_t position;                  // of the query
    const std::vector<bool>* hidden;  // per key: padding
    double precision;
  };
  void add_row(Head& head, PerSource& source, const Row& row, bool self_attention) const;

  std::vector<std::vector<bool>> is_padding_;
  std::map<Key, Layer> layers_;
  std::map<size_t, std::vector<bool>> hidden_;  // per source: padding among the positions of cross-attention
};

}  // namespace attune
