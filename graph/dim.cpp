#include "graph/dim.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <numeric>

namespace attune {

struct Dim::Atom {
  std::string text;  // canonical: equal atoms have equal texts
  Function function = Function::kSymbol;
  std::string name;  // of a symbol
  Dim a, b;          // operands of a function
  Bounds range;
};

namespace {

constexpr size_t kMaxTerms = 64, kMaxText = 2000;

int64_t floor_div(int64_t a, int64_t b) { return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0); }

std::optional<int64_t> checked_add(std::optional<int64_t> a, std::optional<int64_t> b) {
  int64_t sum = 0;
  if (!a || !b || __builtin_add_overflow(*a, *b, &sum)) return std::nullopt;
  return sum;
}

std::optional<int64_t> checked_multiply(std::optional<int64_t> a, std::optional<int64_t> b) {
  int64_t product = 0;
  if (!a || !b || __builtin_mul_overflow(*a, *b, &product)) return std::nullopt;
  return product;
}

// Plain names stand for themselves; others are quoted inside of expressions.
std::string quoted(const std::string& name) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == ':' || c == '?';
  };
  const bool is_plain = !name.empty() && std::all_of(name.begin(), name.end(), plain) &&
                        std::isdigit(static_cast<unsigned char>(name.front())) == 0;
  return is_plain ? name : fmt::format("'{}'", name);
}

}  // namespace

// ---- construction

Dim Dim::of(std::shared_ptr<const Atom> atom) {
  Dim d(0);
  d.terms_.push_back({{std::move(atom)}, 1});
  return d;
}

Dim Dim::symbol(std::string name) {
  auto atom = std::make_shared<Atom>();
  atom->text = quoted(name);
  atom->name = std::move(name);
  atom->range = {0, std::nullopt};
  return of(std::move(atom));
}

Dim Dim::opaque(Function function, const Dim& a, const Dim& b) {
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

// Graded lexicographic order, a monomial order: negative if a comes first (a higher degree, then earlier names).
int Dim::compare(const Atoms& a, const Atoms& b) {
  if (a.size() != b.size()) return a.size() > b.size() ? -1 : 1;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i])
      if (const int order = a[i]->text.compare(b[i]->text); order != 0) return order;
  return 0;
}

void Dim::add(const Atoms& atoms, int64_t factor) {
  if (!known_) return;
  const auto at = std::lower_bound(terms_.begin(), terms_.end(), atoms,
                                   [](const Term& t, const Atoms& x) { return compare(t.atoms, x) < 0; });
  if (at == terms_.end() || compare(at->atoms, atoms) != 0) {
    if (terms_.size() == kMaxTerms) {
      *this = Dim();
    } else {
      terms_.insert(at, {atoms, factor});
    }
  } else if (__builtin_add_overflow(at->factor, factor, &at->factor)) {
    *this = Dim();
  } else if (at->factor == 0) {
    terms_.erase(at);
  }
}

void Dim::add_constant(int64_t value) {
  if (known_ && __builtin_add_overflow(constant_, value, &constant_)) *this = Dim();
}

// ---- questions

std::optional<int64_t> Dim::constant() const {
  return known_ && terms_.empty() ? std::optional(constant_) : std::nullopt;
}

std::string Dim::as_symbol() const {
  if (terms_.size() != 1 || constant_ != 0) return {};
  const Term& term = terms_.front();
  return term.factor == 1 && term.atoms.size() == 1 ? term.atoms.front()->name : std::string();
}

std::set<std::string> Dim::symbols() const {
  std::set<std::string> out;
  for (const Term& term : terms_)
    for (const auto& atom : term.atoms) {
      if (atom->function == Function::kSymbol) {
        out.insert(atom->name);
      } else {
        out.merge(atom->a.symbols());
        out.merge(atom->b.symbols());
      }
    }
  return out;
}

std::optional<std::vector<Dim::Summand>> Dim::summands() const {
  if (!known_) return std::nullopt;
  std::vector<Summand> out;
  for (const Term& term : terms_) {
    Summand summand{{}, term.factor};
    for (const auto& atom : term.atoms) {
      if (atom->function != Function::kSymbol) return std::nullopt;
      summand.symbols.push_back(atom->name);
    }
    out.push_back(std::move(summand));
  }
  if (constant_ != 0 || out.empty()) out.push_back({{}, constant_});
  return out;
}

std::string Dim::to_string() const {
  if (!known_) return "?";
  if (terms_.empty()) return std::to_string(constant_);
  if (std::string name = as_symbol(); !name.empty()) return name;
  std::string out;
  const auto append = [&](bool negative, const std::string& text) {
    out += out.empty() ? (negative ? "-" : "") : (negative ? " - " : " + ");
    out += text;
  };
  // Magnitudes as unsigned, as INT64_MIN has none.
  const auto magnitude = [](int64_t v) { return v < 0 ? ~static_cast<uint64_t>(v) + 1 : static_cast<uint64_t>(v); };
  for (const Term& term : terms_) {
    std::string text = term.factor == 1 || term.factor == -1 ? "" : fmt::format("{}*", magnitude(term.factor));
    for (size_t i = 0; i < term.atoms.size(); ++i) {
      if (i > 0) text += '*';
      text += term.atoms[i]->text;
    }
    append(term.factor < 0, text);
  }
  if (constant_ != 0) append(constant_ < 0, std::to_string(magnitude(constant_)));
  return out;
}

bool operator==(const Dim& a, const Dim& b) {
  if (!a.known_ || !b.known_ || a.constant_ != b.constant_ || a.terms_.size() != b.terms_.size()) return false;
  return std::equal(a.terms_.begin(), a.terms_.end(), b.terms_.begin(), [](const Dim::Term& x, const Dim::Term& y) {
    return x.factor == y.factor && Dim::compare(x.atoms, y.atoms) == 0;
  });
}

std::optional<int64_t> Dim::evaluate(const std::map<std::string, int64_t, std::less<>>& bindings) const {
  if (!known_) return std::nullopt;
  std::optional<int64_t> sum = constant_;
  for (const Term& term : terms_) {
    std::optional<int64_t> value = term.factor;
    for (const auto& atom : term.atoms) {
      if (atom->function == Function::kSymbol) {
        const auto it = bindings.find(atom->name);
        if (it == bindings.end()) return std::nullopt;
        value = checked_multiply(value, it->second);
        continue;
      }
      const auto a = atom->a.evaluate(bindings), b = atom->b.evaluate(bindings);
      if (!a || !b) return std::nullopt;
      value = checked_multiply(value, apply(atom->function, *a, *b).constant());
    }
    sum = checked_add(sum, value);
  }
  return sum;
}

Dim Dim::substitute(const std::map<std::string, Dim, std::less<>>& bindings) const {
  if (!known_) return {};
  Dim sum(constant_);
  for (const Term& term : terms_) {
    Dim value(term.factor);
    for (const auto& atom : term.atoms) {
      if (atom->function == Function::kSymbol) {
        const auto it = bindings.find(atom->name);
        value = value * (it == bindings.end() ? symbol(atom->name) : it->second);
      } else {
        value = value * apply(atom->function, atom->a.substitute(bindings), atom->b.substitute(bindings));
      }
    }
    sum = sum + value;
  }
  return sum;
}

// ---- bounds

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

const Dim::Atom* Dim::opaque_term(size_t term) const {
  const Atoms& atoms = terms_[term].atoms;
  return atoms.size() == 1 && atoms[0]->function != Function::kSymbol ? atoms[0].get() : nullptr;
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
  return (x && *x >= 1 && atom->b == other) || (y && *y >= 1 && atom->a == other);
}

// ---- arithmetic

Dim operator+(const Dim& a, const Dim& b) {
  if (!a.known_ || !b.known_) return {};
  Dim out = a;
  out.source_.reset();
  out.add_constant(b.constant_);
  for (const Dim::Term& term : b.terms_) out.add(term.atoms, term.factor);
  return out;
}

Dim operator-(const Dim& a, const Dim& b) { return a + b * Dim(-1); }

Dim operator*(const Dim& a, const Dim& b) {
  if (!a.known_ || !b.known_) return {};
  const auto product = checked_multiply(a.constant_, b.constant_);
  Dim out = product ? Dim(*product) : Dim();
  const auto scaled = [&](const Dim& d, int64_t by) {
    for (const Dim::Term& term : d.terms_) {
      const auto factor = checked_multiply(term.factor, by);
      if (!factor) out = Dim();
      if (factor && *factor != 0) out.add(term.atoms, *factor);
    }
  };
  scaled(a, b.constant_);
  scaled(b, a.constant_);
  for (const Dim::Term& x : a.terms_)
    for (const Dim::Term& y : b.terms_) {
      const auto factor = checked_multiply(x.factor, y.factor);
      if (!factor || x.atoms.size() + y.atoms.size() > kMaxTerms) return {};
      Dim::Atoms atoms;
      std::merge(x.atoms.begin(), x.atoms.end(), y.atoms.begin(), y.atoms.end(), std::back_inserter(atoms),
                 [](const auto& p, const auto& q) { return p->text < q->text; });
      out.add(atoms, *factor);
    }
  return out;
}

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
    if (!left.known_ || !quotient.known_ || rounds > kMaxTerms) return {0, a};
  }
  if (number) {
    const int64_t times = floor_div(left.constant_, by_factor);
    quotient.add_constant(times);
    rest.add_constant(left.constant_ - times * by_factor);
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
  if (product && *inner_divisor > 0)
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
  const auto x = a.constant(), y = b.constant();
  if (x && y) return *y == -1 ? 0 : *x - floor_div(*x, *y) * *y;
  const Dim rest = divide(a, b).rest;
  if (rest.is(0)) return 0;
  if (rest.at_least(0) && (b - rest).at_least(1)) return rest;
  return opaque(Function::kModulo, rest, b);
}

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

std::string to_string(const Dims& dims) {
  std::vector<std::string> parts;
  parts.reserve(dims.size());
  for (const Dim& d : dims) parts.push_back(d.to_string());
  return fmt::format("({})", fmt::join(parts, ","));
}

}  // namespace attune
