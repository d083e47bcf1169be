// Step models that choose the best token themselves.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace attune {

class TokenSelector {
 public:
  virtual ~TokenSelector() = default;
  // The vocabulary, if the next step can choose; else 0.
  virtual size_t selects() const = 0;
  // As StepModel::step(), but gives for each row the token with the largest score, the first of equal ones, that is
  // none of `excluded` (ascending). Good until the next call.
  virtual std::span<const int64_t> select(const std::vector<std::vector<int64_t>>& sequences,
                                          std::span<const int32_t> parents, const std::vector<int64_t>& excluded) = 0;
};

}  // namespace attune
