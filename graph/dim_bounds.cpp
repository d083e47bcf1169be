// What is known of the range of a size.
#include <algorithm>
#include <utility>

#include "graph/dim_atom.h"

namespace attune {

Dim::Bounds Dim::bounds(Function function, const Dim& a, const Dim& b) {
  const Bounds x = a.bounds(), y = b.bounds();
  const bool positive = y.low && *y.low >= 0;  // a divisor isn't 0
  switch (function) {
    case Function::kFloor: {
      const auto divisor = b.constant();
      if (divisor && *divisor > 0)
        return {x.low ? std::optional(floor_div(*x.low, *divisor)) : std::nullopt,
                x.high ? std::optional(floor_div(*x.high, *divisor)) : std::nullopt};
      return {positive && x.low && *x.low >= 0 ? std::optional<int64_t>(0) : std::nullopt, std::nullopt};
    }
    case Function::kModulo:
      return {positive ? std::optional<int64_t>(0) : std::nullopt, positive ? checked_add(y.high, -1) : std::nullopt};
    case Function::kMinimum:
      return {x.low && y.low ? std::optional(std::min(*x.low, *y.low)) : std::nullopt,
              x.high && y.high ? std::optional(std::min(*x.high, *y.high))
              : x.high         ? x.high
                               : y.high};
    default:
      return {x.low && y.low ? std::optional(std::max(*x.low, *y.low))
              : x.low        ? x.low
                             : y.low,
              x.high && y.high ? std::optional(std::max(*x.high, *y.high)) : std::nullopt};
  }
}

Dim::Bounds Dim::bounds() const {
  if (!known_) return {};
  Bounds sum{constant_, constant_};
  for (const Term& term : terms_) {
    Bounds product{1, 1};
    for (const auto& atom : term.atoms) {
      const Bounds& range = atom->range;
      if (!range.low || (*range.low < 0 && term.atoms.size() > 1)) return {};
      product = {checked_multiply(product.low, range.low), checked_multiply(product.high, range.high)};
    }
    auto low = checked_multiply(product.low, term.factor), high = checked_multiply(product.high, term.factor);
    if (term.factor < 0) std::swap(low, high);
    sum = {checked_add(sum.low, low), checked_add(sum.high, high)};
  }
  return sum;
}

bool Dim::at_least(int64_t bound, int depth) const {
  constexpr size_t kMaxCases = 6;  // terms
  const auto low = bounds().low;
  if (low && *low >= bound) return true;
  if (depth == 0 || terms_.size() > kMaxCases) return false;
  // By cases: a minimum or maximum is one of its operands, and bounded by each; a quotient or remainder of what
  // isn't negative is at most the dividend.
  for (size_t i = 0; i < terms_.size(); ++i) {
    const Atom* atom = opaque_term(i);
    if (!atom) continue;
    const int64_t factor = terms_[i].factor;
    Dim rest = *this;
    rest.terms_.erase(rest.terms_.begin() + static_cast<std::ptrdiff_t>(i));
    const auto holds = [&](const Dim& replacement) { return (rest + replacement * factor).at_least(bound, depth - 1); };
    // d floor(a / d) > a - d, and at most a
    const auto whole = atom->function == Function::kFloor ? atom->b.constant() : std::nullopt;
    if (whole && *whole > 0 && factor % *whole == 0) {
      const Dim least = factor > 0 ? atom->a - Dim(*whole - 1) : atom->a;
      if ((rest + least * Dim(factor / *whole)).at_least(bound, depth - 1)) return true;
    }
    const auto divisor = atom->b.bounds().low, dividend = atom->a.bounds().low;
    switch (atom->function) {
      case Function::kMinimum:
        if (factor < 0 ? holds(atom->a) || holds(atom->b) : holds(atom->a) && holds(atom->b)) return true;
        break;
      case Function::kMaximum:
        if (factor > 0 ? holds(atom->a) || holds(atom->b) : holds(atom->a) && holds(atom->b)) return true;
        break;
      default:
        if (factor < 0 && divisor && *divisor >= 0 && dividend && *dividend >= 0 && holds(atom->a)) return true;
    }
  }
  return false;
}

bool Dim::clips(const Dim& other) const {
  if (!known_ || terms_.size() != 1 || constant_ != 0 || terms_[0].factor != 1) return false;
  const Atom* atom = opaque_term(0);
  if (!atom || atom->function != Function::kMinimum) return false;
  const auto x = atom->a.constant(), y = atom->b.constant();
  return (x && *x >= 2 && atom->b == other) || (y && *y >= 2 && atom->a == other);
}

}  // namespace attune
