#include "graph/dim.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace attune {
namespace {

// An opaque atom is "floor(A/B)", "min(A,B)", "max(A,B)" or "mod(A,B)"; symbols never contain '('.
bool is_opaque(std::string_view atom) { return atom.find('(') != std::string_view::npos; }

struct Split {
  std::string_view function, left, right;
};

Split split_opaque(std::string_view atom) {
  const size_t open = atom.find('(');
  const std::string_view function = atom.substr(0, open);
  const std::string_view inside = atom.substr(open + 1, atom.size() - open - 2);
  const char separator = function == "floor" ? '/' : ',';
  // The separator at depth 0; in floor() both operands are parenthesised, so that none is inside.
  int depth = 0;
  for (size_t i = 0; i < inside.size(); ++i) {
    if (inside[i] == '(') ++depth;
    if (inside[i] == ')') --depth;
    if (depth == 0 && inside[i] == separator) return {function, inside.substr(0, i), inside.substr(i + 1)};
  }
  return {function, inside, {}};
}

int64_t floor_div(int64_t a, int64_t b) { return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0); }

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}
  std::optional<Dim> parse() {
    auto d = sum();
    skip();
    return d && at_ == text_.size() ? d : std::nullopt;
  }

 private:
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::optional<Dim> sum() {
    const bool negative = take('-');
    auto left = product();
    if (left && negative) left = Dim(0) - *left;
    while (left) {
      const bool plus = take('+');
      if (!plus && !take('-')) break;
      auto right = product();
      if (!right) return std::nullopt;
      left = plus ? *left + *right : *left - *right;
    }
    return left;
  }
  std::optional<Dim> product() {
    auto left = atom();
    while (left) {
      bool times = take('*');
      if (times) take('*');  // sympy's power is left to be one symbol
      bool divide = false;
      if (!times) {
        divide = take('/');
        if (divide) take('/');
      }
      if (!times && !divide) break;
      auto right = atom();
      if (!right) return std::nullopt;
      left = times ? *left * *right : Dim::floor_divide(*left, *right);
    }
    return left;
  }
  std::optional<Dim> atom() {
    skip();
    if (take('(')) {
      auto d = sum();
      return d && take(')') ? d : std::nullopt;
    }
    const size_t begin = at_;
    auto word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == ':'; };
    while (at_ < text_.size() && word(text_[at_])) ++at_;
    const std::string_view token = text_.substr(begin, at_ - begin);
    if (token.empty()) return std::nullopt;
    if (std::all_of(token.begin(), token.end(), [](char c) { return std::isdigit(static_cast<unsigned char>(c)); })) {
      if (token.size() > 18) return std::nullopt;
      return Dim(std::stoll(std::string(token)));
    }
    if (std::isdigit(static_cast<unsigned char>(token.front()))) return std::nullopt;
    if (at_ < text_.size() && text_[at_] == '(') return call(token);
    return Dim::symbol(std::string(token));
  }
  std::optional<Dim> call(std::string_view function) {
    take('(');
    auto a = sum();
    if (!a) return std::nullopt;
    if (function == "floor") return take(')') ? a : std::nullopt;
    if (!take(',')) return std::nullopt;
    auto b = sum();
    if (!b || !take(')')) return std::nullopt;
    if (function == "min" || function == "Min") return Dim::minimum(*a, *b);
    if (function == "max" || function == "Max") return Dim::maximum(*a, *b);
    if (function == "mod" || function == "Mod") return Dim::modulo(*a, *b);
    return std::nullopt;
  }
  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

Dim::Dim(int64_t value) : known_(true) {
  if (value != 0) terms_[{}] = value;
}

Dim Dim::symbol(std::string name) {
  Dim d;
  d.known_ = true;
  d.terms_[{std::move(name)}] = 1;
  return d;
}

Dim Dim::parse(std::string_view text) {
  if (text.empty() || text == "?") return {};
  Dim d;
  if (auto expression = Parser(text).parse()) {
    d = std::move(*expression);
  } else {
    std::string name(text);
    for (char& c : name)
      if (c == '(' || c == ')') c = '_';
    d = symbol(std::move(name));
  }
  if (d.to_string() != text) d.source_text_ = text;
  return d;
}

std::optional<int64_t> Dim::constant() const {
  if (!known_) return std::nullopt;
  if (terms_.empty()) return 0;
  if (terms_.size() == 1 && terms_.begin()->first.empty()) return terms_.begin()->second;
  return std::nullopt;
}

std::string Dim::as_symbol() const {
  if (!known_ || terms_.size() != 1) return {};
  const auto& [product, factor] = *terms_.begin();
  return factor == 1 && product.size() == 1 && !is_opaque(product[0]) ? product[0] : std::string();
}

std::set<std::string> Dim::symbols() const {
  std::set<std::string> out;
  for (const auto& [product, factor] : terms_)
    for (const auto& atom : product) {
      if (!is_opaque(atom)) {
        out.insert(atom);
        continue;
      }
      const Split s = split_opaque(atom);
      out.merge(parse(s.left).symbols());
      out.merge(parse(s.right).symbols());
    }
  return out;
}

std::string Dim::to_string() const {
  if (!known_) return "?";
  if (terms_.empty()) return "0";
  std::string out;
  // Symbols first, the constant last: "past + 1".
  std::vector<const std::pair<const Product, int64_t>*> order;
  for (const auto& t : terms_)
    if (!t.first.empty()) order.push_back(&t);
  if (auto it = terms_.find({}); it != terms_.end()) order.push_back(&*it);
  for (const auto* t : order) {
    int64_t factor = t->second;
    if (out.empty()) {
      if (factor < 0) out += "-";
    } else {
      out += factor < 0 ? " - " : " + ";
    }
    factor = factor < 0 ? -factor : factor;
    if (t->first.empty()) {
      out += std::to_string(factor);
    } else {
      if (factor != 1) out += std::to_string(factor) + "*";
      out += fmt::format("{}", fmt::join(t->first, "*"));
    }
  }
  return out;
}

bool Dim::at_least(int64_t bound) const {
  if (!known_) return false;
  int64_t sum = 0;
  for (const auto& [product, factor] : terms_) {
    if (product.empty()) {
      sum += factor;
    } else if (factor < 0 || std::any_of(product.begin(), product.end(), [](const auto& a) { return is_opaque(a) && !a.starts_with("mod("); })) {
      return false;
    }
  }
  return sum >= bound;
}

std::optional<int64_t> Dim::evaluate(const std::map<std::string, int64_t, std::less<>>& bindings) const {
  if (!known_) return std::nullopt;
  int64_t sum = 0;
  for (const auto& [product, factor] : terms_) {
    int64_t value = factor;
    for (const auto& atom : product) {
      if (!is_opaque(atom)) {
        const auto it = bindings.find(atom);
        if (it == bindings.end()) return std::nullopt;
        value *= it->second;
        continue;
      }
      const Split s = split_opaque(atom);
      const auto a = parse(s.left).evaluate(bindings);
      const auto b = parse(s.right).evaluate(bindings);
      if (!a || !b) return std::nullopt;
      if (s.function == "min") {
        value *= std::min(*a, *b);
      } else if (s.function == "max") {
        value *= std::max(*a, *b);
      } else {
        if (*b == 0) return std::nullopt;
        const int64_t quotient = floor_div(*a, *b);
        value *= s.function == "floor" ? quotient : *a - quotient * *b;
      }
    }
    sum += value;
  }
  return sum;
}

Dim Dim::substitute(const std::map<std::string, Dim, std::less<>>& bindings) const {
  if (!known_) return {};
  Dim sum(0);
  for (const auto& [product, factor] : terms_) {
    Dim value(factor);
    for (const auto& atom : product) {
      if (!is_opaque(atom)) {
        const auto it = bindings.find(atom);
        value = value * (it == bindings.end() ? symbol(atom) : it->second);
        continue;
      }
      const Split s = split_opaque(atom);
      const Dim a = parse(s.left).substitute(bindings);
      const Dim b = parse(s.right).substitute(bindings);
      value = value * (s.function == "min"   ? minimum(a, b)
                       : s.function == "max" ? maximum(a, b)
                       : s.function == "mod" ? modulo(a, b)
                                             : floor_divide(a, b));
    }
    sum = sum + value;
  }
  return sum;
}

Dim operator+(const Dim& a, const Dim& b) {
  if (!a.known_ || !b.known_) return {};
  Dim out = a;
  out.source_text_.clear();
  for (const auto& [product, factor] : b.terms_)
    if ((out.terms_[product] += factor) == 0) out.terms_.erase(product);
  return out;
}

Dim operator-(const Dim& a, const Dim& b) { return a + Dim(-1) * b; }

Dim operator*(const Dim& a, const Dim& b) {
  if (!a.known_ || !b.known_) return {};
  Dim out(0);
  for (const auto& [p, f] : a.terms_)
    for (const auto& [q, g] : b.terms_) {
      Dim::Product product = p;
      product.insert(product.end(), q.begin(), q.end());
      std::sort(product.begin(), product.end());
      if ((out.terms_[product] += f * g) == 0) out.terms_.erase(product);
    }
  return out;
}

Dim Dim::opaque(std::string_view function, const Dim& a, const Dim& b) {
  Dim d;
  d.known_ = true;
  const char* format = function == "floor" ? "{}(({})/({}))" : "{}({},{})";
  d.terms_[{fmt::format(fmt::runtime(format), function, a.to_string(), b.to_string())}] = 1;
  return d;
}

Dim Dim::floor_divide(const Dim& a, const Dim& b) {
  if (!a.known_ || !b.known_ || b.is(0)) return {};
  const auto x = a.constant(), y = b.constant();
  if (x && y) return floor_div(*x, *y);
  if (b.terms_.size() == 1) {
    // Every term of a divides by the one term of b.
    const auto& [divisor, by] = *b.terms_.begin();
    Dim out(0);
    bool exact = true;
    for (const auto& [product, factor] : a.terms_) {
      Product rest = product;
      for (const auto& atom : divisor) {
        const auto it = std::find(rest.begin(), rest.end(), atom);
        if (it == rest.end()) {
          exact = false;
          break;
        }
        rest.erase(it);
      }
      if (!exact || factor % by != 0) {
        exact = false;
        break;
      }
      out.terms_[rest] = factor / by;
    }
    if (exact) return out;
  }
  if (a == b) return 1;
  return opaque("floor", a, b);
}

Dim Dim::modulo(const Dim& a, const Dim& b) {
  if (!a.known_ || !b.known_ || b.is(0)) return {};
  const Dim quotient = floor_divide(a, b);
  const Dim rest = a - quotient * b;
  if (rest.constant()) return rest;
  return opaque("mod", a, b);
}

Dim Dim::minimum(const Dim& a, const Dim& b) {
  if (!a.known_ || !b.known_) return {};
  if ((a - b).at_least(0)) return b;
  if ((b - a).at_least(0)) return a;
  return a.to_string() < b.to_string() ? opaque("min", a, b) : opaque("min", b, a);
}

Dim Dim::maximum(const Dim& a, const Dim& b) {
  if (!a.known_ || !b.known_) return {};
  if ((a - b).at_least(0)) return a;
  if ((b - a).at_least(0)) return b;
  return a.to_string() < b.to_string() ? opaque("max", a, b) : opaque("max", b, a);
}

std::string to_string(const Dims& dims) {
  std::vector<std::string> parts;
  parts.reserve(dims.size());
  for (const Dim& d : dims) parts.push_back(d.to_string());
  return fmt::format("({})", fmt::join(parts, ","));
}

}  // namespace attune
