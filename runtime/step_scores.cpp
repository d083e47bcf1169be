#include "runtime/step_scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "graph/error.h"

#include "ops/kernel.h"

namespace attune {
namespace {

// Positions of each row in what a step gave: (rows, positions, columns).
size_t positions_of(const Tensor& t, size_t rows) {
  const auto columns = t.rank() > 0 ? static_cast<size_t>(t.shape().back()) : 0;
  const size_t positions = columns > 0 && rows > 0 ? static_cast<size_t>(t.count()) / (rows * columns) : 0;
  if (positions == 0 || positions * rows * columns != static_cast<size_t>(t.count()))
    throw Error(Error::Kind::kInvalidModel,
                fmt::format("the decoder gave scores of shape {}, expected {} rows", t.shape().to_string(), rows));
  return positions;
}

}  // namespace

void StepScores::start(std::vector<std::vector<int64_t>> allowed, size_t vocabulary) {
  allowed_ = std::move(allowed);
  scored_.clear();
  for (const auto& tokens : allowed_) scored_.insert(scored_.end(), tokens.begin(), tokens.end());
  std::sort(scored_.begin(), scored_.end());
  scored_.erase(std::unique(scored_.begin(), scored_.end()), scored_.end());
  if (vocabulary > 0) std::erase_if(scored_, [&](int64_t token) { return static_cast<size_t>(token) >= vocabulary; });
}

Scores StepScores::all(Tensor logits, std::span<const int32_t> row_sources, size_t vocabulary) {
  logits_ = logits.to_contiguous(&pool_);
  logits = Tensor();
  const Scores scores = last(row_sources.size());
  return limited() ? spread(scores, row_sources, vocabulary) : scores;
}

Scores StepScores::last(size_t rows) {
  const size_t positions = positions_of(logits_, rows);
  const auto vocabulary = static_cast<size_t>(logits_.shape().back());
  if (logits_.type() == DataType::kFloat && positions == 1 && logits_.unique())
    return {{logits_.mutable_data<float>(), rows * vocabulary}, vocabulary};
  converted_.resize(rows * vocabulary);
  dispatch<float, Float16, BFloat16, double>(logits_.type(), [&]<class T>() {
    const T* from = logits_.data<T>();
    for (size_t row = 0; row < rows; ++row)
      for (size_t v = 0; v < vocabulary; ++v)
        converted_[row * vocabulary + v] = static_cast<float>(from[((row + 1) * positions - 1) * vocabulary + v]);
  });
  return {converted_, vocabulary};
}

// Scores of all tokens: those that the row's source doesn't allow are impossible.
Scores StepScores::spread(Scores from, std::span<const int32_t> row_sources, size_t vocabulary) {
  const bool shortened = vocabulary > 0;
  if (!shortened) vocabulary = from.vocabulary;
  spread_.assign(row_sources.size() * vocabulary, -std::numeric_limits<float>::infinity());
  for (size_t row = 0; row < row_sources.size(); ++row) {
    size_t column = 0;
    for (const int64_t token : allowed_[static_cast<size_t>(row_sources[row])]) {
      const auto id = static_cast<size_t>(token);
      if (id >= vocabulary) break;
      while (shortened && scored_[column] != token) ++column;
      spread_[row * vocabulary + id] = from.row(row)[shortened ? column : id];
    }
  }
  return {spread_, vocabulary};
}

BestTokens StepScores::best(const Tensor& tokens, const Tensor& scores, size_t rows) {
  const size_t positions = positions_of(tokens, rows);
  const auto count = static_cast<size_t>(tokens.shape().back());
  best_tokens_.clear();
  best_scores_.clear();
  for (size_t row = 0; row < rows; ++row) {
    const size_t from = ((row + 1) * positions - 1) * count;
    best_tokens_.insert(best_tokens_.end(), tokens.data<int64_t>() + from, tokens.data<int64_t>() + from + count);
    best_scores_.insert(best_scores_.end(), scores.data<float>() + from, scores.data<float>() + from + count);
  }
  return {count, best_tokens_, best_scores_};
}

}  // namespace attune
