// What a decoder's step gives to choose tokens from: the scores of all, perhaps by a shortlist, or the best. Internal
// to the decoder.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/tensor.h"
#include "runtime/search.h"
#include "runtime/token_selector.h"

namespace attune {

// Reusable: what it gave is good until the next call.
class StepScores {
 public:
  explicit StepScores(BufferPool& pool) : pool_(pool) {}

  // Tokens that each source's output may have, ascending; empty: all for all. `vocabulary`: of a decoder that scores a
  // shortlist, else 0.
  void start(std::vector<std::vector<int64_t>> allowed, size_t vocabulary);
  bool limited() const { return !allowed_.empty(); }
  // The tokens of a shortlist: those of all sources.
  const std::vector<int64_t>& scored() const { return scored_; }

  // From logits (rows, positions, vocabulary), or (..., scored tokens) where there is a `vocabulary`, those of the last
  // position; `row_sources`: per row its source.
  Scores all(Tensor logits, std::span<const int32_t> row_sources, size_t vocabulary);
  // Of tokens and scores (rows x positions, count), those of the last position.
  BestTokens best(const Tensor& tokens, const Tensor& scores, size_t rows);

 private:
  Scores last(size_t rows);
  Scores spread(Scores from, std::span<const int32_t> row_sources, size_t vocabulary);

  BufferPool& pool_;
  std::vector<std::vector<int64_t>> allowed_;
  std::vector<int64_t> scored_;
  Tensor logits_;
  std::vector<float> converted_, spread_, best_scores_;
  std::vector<int64_t> best_tokens_;
};

}  // namespace attune
