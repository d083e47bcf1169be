// Step models that choose the best tokens themselves.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace attune {

struct TokenRequest {
  size_t count = 1;                   // tokens of each row; at most the vocabulary
  std::span<const int64_t> excluded;  // ascending; none of them is given
  // A number for each row: scores are then log-probabilities (of all tokens, excluded ones too) plus it. Empty: logits.
  std::span<const float> offsets;
};

// Rows x count: a row's largest score first, of equal ones the lower token.
struct BestTokens {
  size_t count = 0;
  std::span<const int64_t> tokens;
  std::span<const float> scores;
};

class TokenSelector {
 public:
  virtual ~TokenSelector() = default;
  // The vocabulary, if the next step can choose; else 0.
  virtual size_t selects() const = 0;
  // As StepModel::step(), but gives the best tokens of each row. Good until the next call.
  virtual BestTokens select(const std::vector<std::vector<int64_t>>& sequences, std::span<const int32_t> parents,
                            const TokenRequest& request) = 0;
};

}  // namespace attune
