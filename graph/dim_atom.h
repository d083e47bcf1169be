// What the files of Dim share: its factors, and integers that can't overflow.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "graph/dim.h"

namespace attune {

constexpr size_t kMaxDimTerms = 64;

struct Dim::Atom {
  std::string text;  // canonical: equal atoms have equal texts
  Function function = Function::kSymbol;
  std::string name;  // of a symbol
  Dim a, b;          // operands of a function
  Bounds range;
};

bool is_expression(std::string_view text);  // text that Dim::parse reads as more than a name

// Rounds towards minus infinity. b is neither 0 nor -1: the smallest integer has no negative.
inline int64_t floor_div(int64_t a, int64_t b) { return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0); }

// a - b floor(a / b): of the sign of b.
inline int64_t floor_mod(int64_t a, int64_t b) {
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

inline std::optional<int64_t> checked_add(std::optional<int64_t> a, std::optional<int64_t> b) {
  int64_t sum = 0;
  if (!a || !b || __builtin_add_overflow(*a, *b, &sum)) return std::nullopt;
  return sum;
}

inline std::optional<int64_t> checked_multiply(std::optional<int64_t> a, std::optional<int64_t> b) {
  int64_t product = 0;
  if (!a || !b || __builtin_mul_overflow(*a, *b, &product)) return std::nullopt;
  return product;
}

}  // namespace attune
