#include "graph/dim.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>

#include "graph/dim_atom.h"

namespace attune {

namespace {

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
    if (terms_.size() == kMaxDimTerms) {
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
  if (std::string name = as_symbol(); !name.empty()) return is_expression(name) ? quoted(name) : name;
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
      if (!factor || x.atoms.size() + y.atoms.size() > kMaxDimTerms) return {};
      Dim::Atoms atoms;
      std::merge(x.atoms.begin(), x.atoms.end(), y.atoms.begin(), y.atoms.end(), std::back_inserter(atoms),
                 [](const auto& p, const auto& q) { return p->text < q->text; });
      out.add(atoms, *factor);
    }
  return out;
}

const Dim::Atom* Dim::opaque_term(size_t term) const {
  const Atoms& atoms = terms_[term].atoms;
  return atoms.size() == 1 && atoms[0]->function != Function::kSymbol ? atoms[0].get() : nullptr;
}

std::string to_string(const Dims& dims) {
  std::vector<std::string> parts;
  parts.reserve(dims.size());
  for (const Dim& d : dims) parts.push_back(d.to_string());
  return fmt::format("({})", fmt::join(parts, ","));
}

}  // namespace attune
