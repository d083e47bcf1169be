#include "convert/sample_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "graph/error.h"

namespace attune {
namespace {

using Summands = std::vector<Dim::Summand>;

Dim to_dim(const Dim::Summand& summand) {
  Dim out = summand.factor;
  for (const std::string& s : summand.symbols) out = out * Dim::symbol(s);
  return out;
}

// Drops the symbols that are factors of all summands: sizes of 0 aren't made up.
void cancel_common(Summands& sum) {
  for (const std::string& symbol : std::vector<std::string>(sum.front().symbols)) {
    const auto find = [&](Dim::Summand& s) { return std::find(s.symbols.begin(), s.symbols.end(), symbol); };
    if (std::any_of(sum.begin(), sum.end(), [&](Dim::Summand& s) { return find(s) == s.symbols.end(); })) continue;
    for (Dim::Summand& s : sum) s.symbols.erase(find(s));
  }
}

class SizeSolver {
 public:
  explicit SizeSolver(const std::vector<std::string>& kept) {
    for (const std::string& s : kept) rank_.emplace(s, rank_.size());
  }

  // Until nothing more follows: one relation may make another one solvable.
  SizeBindings solve(std::vector<SizeRelation> open) {
    for (bool changed = true; changed;) {
      changed = false;
      for (auto it = open.begin(); it != open.end();) {
        const bool solved = solve(it->a.substitute(bindings_) - it->b.substitute(bindings_));
        changed = changed || solved;
        it = solved ? open.erase(it) : std::next(it);
      }
    }
    return std::move(bindings_);
  }

 private:
  // Whether difference = 0 determined a symbol.
  bool solve(const Dim& difference) {
    auto sum = difference.summands();
    if (!sum || difference.constant()) return false;
    cancel_common(*sum);
    return solve_for_summand(*sum) || solve_proportion(*sum);
  }

  // s = -(the rest), for a summand s or -s. Of several: where nothing is subtracted, then what is kept least.
  bool solve_for_summand(const Summands& sum) {
    std::string best;
    Dim best_value;
    bool best_adds = false;
    for (const Dim::Summand& s : sum) {
      if (s.symbols.size() != 1 || (s.factor != 1 && s.factor != -1)) continue;
      const std::string& symbol = s.symbols[0];
      Dim value = 0;
      bool adds = true, again = false;
      for (const Dim::Summand& other : sum) {
        if (&other == &s) continue;
        again = again || std::count(other.symbols.begin(), other.symbols.end(), symbol) > 0;
        const Dim part = to_dim({other.symbols, -s.factor * other.factor});
        adds = adds && -s.factor * other.factor >= 0;
        value = value + part;
      }
      if (again || (value.constant() && !adds)) continue;
      const bool better = best.empty() || adds > best_adds || (adds == best_adds && rank(symbol) > rank(best));
      if (better) best = symbol, best_value = value, best_adds = adds;
    }
    if (best.empty()) return false;
    bind(best, best_value);
    return true;
  }

  // a s = b t: s = b/g u, t = a/g u; a s = b: s = b/a.
  bool solve_proportion(const Summands& sum) {
    if (sum.size() != 2 || sum[0].symbols.size() != 1 || sum[1].symbols.size() > 1) return false;
    const std::string s = sum[0].symbols[0];
    int64_t a = sum[0].factor, b = -sum[1].factor;
    if (a < 0) a = -a, b = -b;
    if (b <= 0) return false;
    if (sum[1].symbols.empty()) {
      if (b % a != 0) return false;
      bind(s, b / a);
      return true;
    }
    const std::string t = sum[1].symbols[0];
    if (s == t) return false;
    const int64_t g = std::gcd(a, b);
    const Dim unit = Dim::symbol(fmt::format("({})/{}", s, b / g));
    bind(s, Dim(b / g) * unit);
    bind(t, Dim(a / g) * unit);
    return true;
  }

  void bind(const std::string& symbol, const Dim& value) {
    const SizeBindings one{{symbol, value}};
    for (auto& [other, known] : bindings_) known = known.substitute(one);
    bindings_.emplace(symbol, value);
  }

  size_t rank(const std::string& symbol) const {
    const auto it = rank_.find(symbol);
    return it == rank_.end() ? rank_.size() : it->second;
  }

  std::map<std::string, size_t, std::less<>> rank_;
  SizeBindings bindings_;
};

SampleForm bound(std::vector<SampleInput> inputs, const std::vector<std::string>& symbols,
                 const SizeBindings& bindings) {
  SampleForm out;
  for (SampleInput& input : inputs) {
    for (Dim& d : input.dims) d = d.substitute(bindings);
    if (input.range) input.range = {input.range->low.substitute(bindings), input.range->high.substitute(bindings)};
  }
  out.symbols = sample_symbols(inputs);
  for (const std::string& s : symbols) out.sizes.emplace_back(s, Dim::symbol(s).substitute(bindings));
  out.inputs = std::move(inputs);
  return out;
}

// Relations of known sizes, in front of what operators need.
std::vector<SizeRelation> relations_of(const GivenSizes& given, const std::vector<std::string>& symbols) {
  std::vector<SizeRelation> out;
  for (const auto& [name, size] : given) {
    if (std::find(symbols.begin(), symbols.end(), name) == symbols.end())
      throw Error(Error::Kind::kInvalidArgument,
                  fmt::format("size '{}': expected one of {}", name, fmt::join(symbols, ", ")));
    out.push_back({Dim::symbol(name), size, true});
  }
  return out;
}

}  // namespace

SizeBindings solve_sizes(const std::vector<SizeRelation>& relations, const std::vector<std::string>& kept) {
  return SizeSolver(kept).solve(relations);
}

std::vector<SampleForm> sample_forms(const Model& model, const GivenSizes& given) {
  // Sizes that aren't declared get names, so that relations between them can be told.
  Model named = model;
  named.graph = model.graph->clone();
  for (Value* input : named.graph->inputs()) {
    ValueType type = input->type();
    if (!type.tensor.shape) continue;
    for (size_t i = 0; i < type.tensor.shape->size(); ++i)
      if (Dim& d = (*type.tensor.shape)[i]; !d.known()) d = Dim::symbol(undeclared_size(input->name(), i));
    input->set_type(std::move(type));
  }
  Inference types(named);
  const std::vector<SampleInput> inputs = sample_inputs(named, &types);
  const std::vector<std::string> symbols = sample_symbols(inputs);
  const std::vector<SizeRelation> first = relations_of(given, symbols);
  std::vector<SizeRelation> all = types.relations();
  const auto loose = std::stable_partition(all.begin(), all.end(), [](const SizeRelation& r) { return r.strict; });
  std::vector<SizeRelation> relations = first;
  std::vector<SampleForm> out;
  const auto add_form = [&] {
    SampleForm form = bound(inputs, symbols, solve_sizes(relations, symbols));
    if (std::none_of(out.begin(), out.end(), [&](const SampleForm& f) { return f.sizes == form.sizes; }))
      out.push_back(std::move(form));
  };
  relations.insert(relations.end(), all.begin(), loose);
  add_form();
  relations.insert(relations.end(), loose, all.end());
  add_form();
  relations = first;
  add_form();
  return out;
}

}  // namespace attune
