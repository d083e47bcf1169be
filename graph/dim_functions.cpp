// The functions of sizes that aren't polynomial: floor division, modulo, minimum and maximum.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>

#include "graph/dim_atom.h"

namespace attune {

Dim Dim::opaque(Function function, const Dim& a, const Dim& b) {
  constexpr size_t kMaxText = 2000;
  const std::string x = a.to_string(), y = b.to_string();
  if (x.size() + y.size() > kMaxText) return {};
  auto atom = std::make_shared<Atom>();
  switch (function) {
    case Function::kFloor:
      atom->text = fmt::format("floor(({})/({}))", x, y);
      break;
    case Function::kModulo:
      atom->text = fmt::format("mod({},{})", x, y);
      break;
    case Function::kMinimum:
      atom->text = fmt::format("min({},{})", x, y);
      break;
    default:
      atom->text = fmt::format("max({},{})", x, y);
  }
  atom->function = function;
  atom->a = a;
  atom->b = b;
  atom->range = bounds(function, a, b);
  return of(std::move(atom));
}

Dim Dim::apply(Function function, const Dim& a, const Dim& b) {
  switch (function) {
    case Function::kFloor:
      return floor_divide(a, b);
    case Function::kModulo:
      return modulo(a, b);
    case Function::kMinimum:
      return minimum(a, b);
    default:
      return maximum(a, b);
  }
}

// ---- division

struct Dim::Division {
  Dim quotient, rest;
};

// Division by the leading term, as of polynomials. By a number or one term, what divides goes into the quotient; by
// more terms, everything or nothing does.
Dim::Division Dim::divide(const Dim& a, const Dim& b) {
  const Atoms none;
  const bool number = b.terms_.empty(), single = number || (b.terms_.size() == 1 && b.constant_ == 0);
  const Atoms& by = number ? none : b.terms_.front().atoms;
  const int64_t by_factor = number ? b.constant_ : b.terms_.front().factor;
  Dim quotient(0), rest(0), left = a;
  for (size_t rounds = 0; !left.terms_.empty(); ++rounds) {
    const Term term = left.terms_.front();
    if (by_factor == -1 && term.factor == INT64_MIN) return {0, a};
    left.terms_.erase(left.terms_.begin());
    Atoms remaining;
    std::set_difference(term.atoms.begin(), term.atoms.end(), by.begin(), by.end(), std::back_inserter(remaining),
                        [](const auto& p, const auto& q) { return p->text < q->text; });
    const bool divides = term.atoms.size() == remaining.size() + by.size();
    const int64_t times = term.factor / by_factor, over = term.factor % by_factor;
    if (!divides || (over != 0 && !number) || times == 0) {
      rest.add(term.atoms, term.factor);
      continue;
    }
    Dim step(0);
    if (remaining.empty()) {
      step.add_constant(times);
    } else {
      step.add(remaining, times);
    }
    quotient = quotient + step;
    if (over != 0) rest.add(term.atoms, over);
    if (!single) {
      Dim tail = b;
      tail.terms_.erase(tail.terms_.begin());
      left = left - tail * step;
    }
    if (!left.known_ || !quotient.known_ || rounds > kMaxDimTerms) return {0, a};
  }
  if (number) {
    quotient.add_constant(floor_div(left.constant_, by_factor));
    rest.add_constant(floor_mod(left.constant_, by_factor));
  } else {
    rest.add_constant(left.constant_);
  }
  return single || rest.is(0) ? Division{quotient, rest} : Division{0, a};
}

// For a rest without multiples of the divisor, a number above 1.
Dim Dim::floor_of_rest(const Dim& rest, int64_t divisor) {
  // floor((x + mod(-x, d)) / d) = floor((x + d - 1) / d): x padded to a multiple of d
  for (size_t i = 0; i < rest.terms_.size(); ++i) {
    const Atom* atom = rest.opaque_term(i);
    if (!atom || atom->function != Function::kModulo || rest.terms_[i].factor != 1 || !atom->b.is(divisor)) continue;
    Dim x = rest;
    x.terms_.erase(x.terms_.begin() + static_cast<std::ptrdiff_t>(i));
    if ((x + atom->a).is(0)) return floor_divide(x + (divisor - 1), divisor);
  }
  // floor(-x / d) = -floor((x + d - 1) / d)
  if (rest.terms_.front().factor < 0) return Dim(0) - floor_divide(Dim(divisor - 1) - rest, divisor);
  // floor((g x + c) / (g d)) = floor((x + floor(c / g)) / d)
  int64_t common = divisor;
  for (const Term& term : rest.terms_) common = std::gcd(common, term.factor);
  if (common > 1) {
    Dim smaller(floor_div(rest.constant_, common));
    for (const Term& term : rest.terms_) smaller.add(term.atoms, term.factor / common);
    return floor_divide(smaller, divisor / common);
  }
  // floor((floor(x / e) + c) / d) = floor((x + c e) / (d e))
  const Atom* inner = rest.terms_.size() == 1 && rest.terms_[0].factor == 1 ? rest.opaque_term(0) : nullptr;
  const auto inner_divisor = inner && inner->function == Function::kFloor ? inner->b.constant() : std::nullopt;
  const auto product = checked_multiply(inner_divisor, divisor);
  if (inner && product && *inner_divisor > 0)
    return floor_divide(inner->a + Dim(rest.constant_) * Dim(*inner_divisor), *product);
  return opaque(Function::kFloor, rest, divisor);
}

Dim Dim::floor_divide(const Dim& a, const Dim& b) {
  if (!a.known_ || !b.known_ || b.is(0)) return {};
  const auto divisor = b.constant();
  if (divisor && *divisor < 0) return *divisor == INT64_MIN ? Dim() : floor_divide(Dim(0) - a, Dim(0) - b);
  const Division division = divide(a, b);
  if (!division.quotient.known_ || !division.rest.known_) return {};
  if (division.rest.is(0)) return division.quotient;
  // floor((g x) / (g y)) = floor(x / y)
  for (size_t i = 0; !divisor && i < b.terms_.front().atoms.size(); ++i) {
    const Dim common = of(b.terms_.front().atoms[i]);
    const Division over = divide(division.rest, common), under = divide(b, common);
    if (over.rest.is(0) && under.rest.is(0)) return division.quotient + floor_divide(over.quotient, under.quotient);
  }
  if (!divisor) return division.quotient + opaque(Function::kFloor, division.rest, b);
  if (division.rest.terms_.empty()) return division.quotient;  // less than the divisor
  return division.quotient + floor_of_rest(division.rest, *divisor);
}

Dim Dim::ceil_divide(const Dim& a, const Dim& b) { return Dim(0) - floor_divide(Dim(0) - a, b); }

Dim Dim::modulo(const Dim& a, const Dim& b) {
  if (!a.known_ || !b.known_ || b.is(0)) return {};
  if (b.is(1) || b.is(-1)) return 0;
  const Dim rest = divide(a, b).rest;
  const auto x = rest.constant(), y = b.constant();
  if (x && y) return floor_mod(*x, *y);
  if (rest.is(0)) return 0;
  if (rest.at_least(0) && (b - rest).at_least(1)) return rest;
  return opaque(Function::kModulo, rest, b);
}

// ---- minimum, maximum

Dim Dim::minimum(const Dim& a, const Dim& b) {
  if (!a.known_ || !b.known_) return {};
  if ((a - b).at_least(0)) return b;
  if ((b - a).at_least(0)) return a;
  return a.to_string() < b.to_string() ? opaque(Function::kMinimum, a, b) : opaque(Function::kMinimum, b, a);
}

Dim Dim::maximum(const Dim& a, const Dim& b) {
  if (!a.known_ || !b.known_) return {};
  if ((a - b).at_least(0)) return a;
  if ((b - a).at_least(0)) return b;
  return a.to_string() < b.to_string() ? opaque(Function::kMaximum, a, b) : opaque(Function::kMaximum, b, a);
}

}  // namespace attune
