// Symbolic integers: the sizes of dimensions, and the values of shape arithmetic.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace attune {

// An integer polynomial over symbols ("past + 1", "2*batch*heads"), in a canonical form, so that
// equal means equal. What isn't polynomial (floor division, min, max, modulo) is an opaque factor
// over canonical operands. An unknown Dim equals nothing, itself included. Arithmetic that overflows,
// or grows beyond what anybody can read, gives an unknown Dim.
class Dim {
 public:
  Dim() = default;                                        // unknown
  Dim(int64_t value) : known_(true), constant_(value) {}  // NOLINT(google-explicit-constructor): sizes read as numbers
  static Dim symbol(std::string name);
  // ONNX dim_param text. Integers, names, + - * ** / // ( ), floor(), min(,), max(,), mod(,); a name with other
  // characters stands in '...'. Other text, and text that makes a number, is the name of a symbol. Empty: unknown.
  static Dim parse(std::string_view text);

  bool known() const noexcept { return known_; }
  std::optional<int64_t> constant() const;  // the value, if it has no symbols
  bool is(int64_t value) const { return known_ && terms_.empty() && constant_ == value; }
  // The single symbol this is, without factor or summand; empty otherwise.
  std::string as_symbol() const;
  std::set<std::string> symbols() const;
  // The sum that this is: factors times products of symbols (none for the constant, which is left out if it is 0 and
  // not alone). Nothing if it is unknown or not polynomial.
  struct Summand {
    std::vector<std::string> symbols;
    int64_t factor;
  };
  std::optional<std::vector<Summand>> summands() const;
  std::string to_string() const;  // "?" if unknown; parse(to_string()) gives it back, if it isn't a number
  // The text this was parsed from where to_string() writes it otherwise; else empty.
  // Arithmetic drops it.
  std::string source_text() const { return source_ ? *source_ : std::string(); }

  // Sizes are not negative. True if that (symbols >= 0) proves this >= bound.
  bool at_least(int64_t bound) const { return at_least(bound, 3); }
  // True if this is min(other, limit) with a number limit >= 2: sizes that can't differ by broadcasting.
  bool clips(const Dim& other) const;
  // The value with the symbols bound; nothing if one is missing, on division by zero or overflow.
  std::optional<int64_t> evaluate(const std::map<std::string, int64_t, std::less<>>& bindings) const;
  Dim substitute(const std::map<std::string, Dim, std::less<>>& bindings) const;

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  // Rounds towards minus infinity. Exact where a is a multiple of b; opaque for what is left.
  static Dim floor_divide(const Dim& a, const Dim& b);
  static Dim ceil_divide(const Dim& a, const Dim& b);
  static Dim modulo(const Dim& a, const Dim& b);  // of the sign of b
  static Dim minimum(const Dim& a, const Dim& b);
  static Dim maximum(const Dim& a, const Dim& b);
  friend bool operator==(const Dim& a, const Dim& b);

 private:
  enum class Function { kSymbol, kFloor, kModulo, kMinimum, kMaximum };
  struct Atom;  // a symbol, or a function of two Dims
  using Atoms = std::vector<std::shared_ptr<const Atom>>;
  struct Term {
    Atoms atoms;     // sorted; not empty
    int64_t factor;  // not 0
  };
  struct Bounds {
    std::optional<int64_t> low, high;
  };

  static Dim of(std::shared_ptr<const Atom> atom);
  static Dim apply(Function function, const Dim& a, const Dim& b);
  static Dim opaque(Function function, const Dim& a, const Dim& b);
  static Bounds bounds(Function function, const Dim& a, const Dim& b);
  static int compare(const Atoms& a, const Atoms& b);
  // a = quotient * b + rest.
  struct Division;
  static Division divide(const Dim& a, const Dim& b);
  static Dim floor_of_rest(const Dim& rest, int64_t divisor);
  void add(const Atoms& atoms, int64_t factor);
  void add_constant(int64_t value);
  Bounds bounds() const;
  // The one opaque factor of the term, if there is no other; else null.
  const Atom* opaque_term(size_t term) const;
  bool at_least(int64_t bound, int depth) const;

  bool known_ = false;
  int64_t constant_ = 0;
  std::vector<Term> terms_;  // from high degree to low, then by names
  std::shared_ptr<const std::string> source_;
};

// A symbolic shape; nothing known about the rank: std::nullopt where that can be.
using Dims = std::vector<Dim>;
std::string to_string(const Dims& dims);  // "(batch,past + 1,64)"

}  // namespace attune
