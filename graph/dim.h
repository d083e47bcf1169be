// Symbolic integers: the sizes of dimensions, and the values of shape arithmetic.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace attune {

// An integer polynomial over symbols ("past + 1", "2*batch*heads"), in a canonical form, so that
// equal means equal. What isn't polynomial (floor division, min, max, modulo) is an opaque term
// over canonical operands. An unknown Dim equals nothing, itself included.
class Dim {
 public:
  Dim() = default;                          // unknown
  Dim(int64_t value);                       // NOLINT(google-explicit-constructor): sizes read as numbers
  static Dim symbol(std::string name);
  // ONNX dim_param text. Integers, names, + - * / ( ), floor(), min(,), max(,), mod(,); text that
  // isn't such an expression becomes one symbol. Empty text: unknown.
  static Dim parse(std::string_view text);

  bool known() const noexcept { return known_; }
  std::optional<int64_t> constant() const;  // the value, if it has no symbols
  bool is(int64_t value) const { return constant() == value; }
  // The single symbol this is, without factor or summand; empty otherwise.
  std::string as_symbol() const;
  std::set<std::string> symbols() const;
  std::string to_string() const;            // "?" if unknown; parse(to_string()) gives it back
  // The text this was parsed from where to_string() writes it otherwise; else empty. Arithmetic drops it.
  const std::string& source_text() const noexcept { return source_text_; }

  // Sizes are not negative. True if that (symbols >= 0) proves this >= bound.
  bool at_least(int64_t bound) const;
  // The value with the symbols bound; nothing if one is missing, or on division by zero.
  std::optional<int64_t> evaluate(const std::map<std::string, int64_t, std::less<>>& bindings) const;
  Dim substitute(const std::map<std::string, Dim, std::less<>>& bindings) const;

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  // Rounds towards minus infinity. Exact where the terms divide; opaque otherwise.
  static Dim floor_divide(const Dim& a, const Dim& b);
  static Dim modulo(const Dim& a, const Dim& b);
  static Dim minimum(const Dim& a, const Dim& b);
  static Dim maximum(const Dim& a, const Dim& b);
  friend bool operator==(const Dim& a, const Dim& b) { return a.known_ && b.known_ && a.terms_ == b.terms_; }

 private:
  using Product = std::vector<std::string>;  // sorted atoms: symbols and opaque terms; empty for 1
  static Dim opaque(std::string_view function, const Dim& a, const Dim& b);
  bool known_ = false;
  std::map<Product, int64_t> terms_;         // no zero coefficients
  std::string source_text_;
};

// A symbolic shape; nothing known about the rank: std::nullopt where that can be.
using Dims = std::vector<Dim>;
std::string to_string(const Dims& dims);     // "(batch,past + 1,64)"

}  // namespace attune
