#include "passes/mask_analysis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "passes/comparisons.h"
#include "passes/constant_band.h"
#include "passes/mask_analyzer.h"
#include "passes/node_facts.h"
#include "passes/uniform_value.h"

namespace attune {

Dim index_symbol(size_t axis) { return Dim::symbol(fmt::format("@{}", axis)); }

bool has_elements(const Dim& e) {
  const auto symbols = e.symbols();
  return std::any_of(symbols.begin(), symbols.end(), [](const std::string& s) { return s.starts_with("$"); });
}

namespace {

constexpr int kMaxDepth = 200;
constexpr size_t kMaxTreeSize = 256;

// Whether `e` >= 0 for all indices: each at the end of its axis where `e` is smallest.
bool is_never_negative(const Dim& e, const IndexSizes& sizes) {
  if (has_elements(e)) return false;
  const auto summands = e.summands();
  if (!summands) return e.at_least(0);
  std::map<std::string, Dim, std::less<>> smallest;
  for (const Dim::Summand& s : *summands)
    if (s.factor < 0 && s.symbols.size() == 1)
      if (const auto it = sizes.find(s.symbols[0]); it != sizes.end() && it->second.known())
        smallest.emplace(s.symbols[0], it->second - 1);
  return e.substitute(smallest).at_least(0);
}

}  // namespace

MaskTreePtr MaskAnalyzer::not_negative(const Dim& e) const {
  if (!e.known()) return nullptr;
  if (is_never_negative(e, sizes_)) return make_leaf(1);
  const Dim opposite = Dim(-1) - e;  // e < 0
  if (is_never_negative(opposite, sizes_)) return make_leaf(0);
  // Of e >= 0 and its negation the one whose text is smaller, so that both are one atom.
  const bool as_is = e.to_string() <= opposite.to_string();
  MaskAtom atom{nullptr, {}, as_is ? e : opposite};
  return make_node(atom, make_leaf(as_is ? 1 : 0), make_leaf(as_is ? 0 : 1));
}

MaskElement MaskAnalyzer::element(const Value* v, const Dims& at, int depth) {
  if (depth > kMaxDepth || v->tensor_type().rank() != static_cast<int>(at.size()) || !all_known(at)) return {};
  const auto key = std::pair(v, to_string(at));
  if (const auto it = known_.find(key); it != known_.end()) return it->second;
  MaskElement e = follow(*v, at, depth + 1);
  if (e.tree && size_of(e.tree) > kMaxTreeSize) e = {};
  if (!e.understood()) e = opaque(*v, at);
  known_.emplace(key, e);
  return e;
}

MaskTreePtr MaskAnalyzer::tree_of(const MaskElement& e) {
  if (e.tree) return e.tree;
  if (const auto c = e.affine.constant()) return make_leaf(static_cast<double>(*c));
  return nullptr;
}

Dim MaskAnalyzer::affine_of(const MaskElement& e) {
  if (e.affine.known()) return e.affine;
  if (e.tree && !e.tree->atom && e.tree->leaf == std::floor(e.tree->leaf) && std::abs(e.tree->leaf) < 1e15)
    return Dim(static_cast<int64_t>(e.tree->leaf));
  return {};
}

MaskElement MaskAnalyzer::leaf(double value) { return {{}, make_leaf(value)}; }

MaskElement MaskAnalyzer::follow(const Value& v, const Dims& at, int depth) {
  if (const auto known = small_contents(v, at); known.understood()) return known;
  if (const Tensor* t = v.constant()) return constant(*t, at);
  if (v.is_graph_input() && !v.graph()->parent_node()) return input(v, at);
  const Node* n = v.producer();
  if (!n || !n->domain().empty()) return {};
  return node(*n, at, depth);
}

MaskElement MaskAnalyzer::small_contents(const Value& v, const Dims& at) const {
  const SymbolicTensor* c = inference_.contents(&v);
  if (!c || at.size() > 1) return {};
  const auto i = at.empty() ? std::optional<int64_t>(0) : at[0].constant();
  if (!i || static_cast<size_t>(*i) >= c->size()) return {};
  if (!c->is_integer()) {
    const auto real = c->reals[static_cast<size_t>(*i)];
    return real ? leaf(*real) : MaskElement{};
  }
  return {c->integers[static_cast<size_t>(*i)], nullptr};
}

MaskElement MaskAnalyzer::constant(const Tensor& t, const Dims& at) const {
  if (const auto value = uniform_value(t)) return leaf(*value);
  if (const auto band = constant_band(t)) {
    const Dim distance = at.back() - at[at.size() - 2];
    const MaskTreePtr from = not_negative(distance - band->first), to = not_negative(Dim(band->last) - distance);
    if (!from || !to) return {};
    return {{}, combine({from, to}, [&](const auto& v) { return v[0] * v[1] != 0 ? band->inside : band->outside; })};
  }
  if (!is_integer(t.type()) || !has_few_numbers(t)) return {};
  const std::vector<int64_t> values = t.to_contiguous().to_int64();
  const auto row = static_cast<size_t>(t.dim(t.rank() - 1));
  for (size_t i = 0; i < values.size(); ++i)
    if (!(Dim(values[i]) - values[0]).is(static_cast<int64_t>(i % row))) return {};
  return {Dim(values[0]) + at.back(), nullptr};
}

bool MaskAnalyzer::selects_rows(const Value& v, int depth) {
  for (const Use& u : v.uses()) {
    if (u.node->is("Gather") && u.index == 1) return true;
    const bool passed_on =
        u.node->is("Cast") || u.node->is("Reshape") || u.node->is("Unsqueeze") || u.node->is("Squeeze");
    if (passed_on && u.index == 0 && depth < 4 && selects_rows(*u.node->output(), depth + 1)) return true;
  }
  return false;
}

bool MaskAnalyzer::tells_numbers_apart(const Value& v) {
  const std::vector<Use> all = comparisons_of(v);
  return std::any_of(all.begin(), all.end(), [](const Use& u) {
    const auto number = compared_with(u);
    return !u.node->is("Equal") || !number || *number != 0;
  });
}

bool MaskAnalyzer::all_known(const Dims& at) {
  return std::all_of(at.begin(), at.end(), [](const Dim& d) { return d.known(); });
}

MaskElement MaskAnalyzer::input(const Value& v, const Dims& at) {
  const DataType type = v.element_type();
  if (type != DataType::kBool && (!is_integer(type) || at.size() < 2 || selects_rows(v) || tells_numbers_apart(v)))
    return {};
  return {{}, make_node({&v, at, {}}, make_leaf(1), make_leaf(0))};
}

MaskElement MaskAnalyzer::opaque(const Value& v, const Dims& at) {
  const DataType type = v.element_type();
  if (type == DataType::kBool) return {{}, make_node({&v, at, {}}, make_leaf(1), make_leaf(0))};
  if ((type != DataType::kInt64 && type != DataType::kInt32) || at.size() > 1) return {};
  const std::string symbol = fmt::format("${}{}", static_cast<const void*>(&v), to_string(at));
  elements_.emplace(symbol, IntegerElement{&v, at});
  return {Dim::symbol(symbol), nullptr};
}

MaskElement MaskAnalyzer::node(const Node& n, const Dims& at, int depth) {
  const std::string& type = n.type();
  if (type == "Identity") return element(n.input(0), at, depth);
  if (type == "Cast") return cast(n, at, depth);
  if (type == "Unsqueeze" || type == "Squeeze" || type == "Reshape") return reshaped(n, at, depth);
  if (type == "Expand" || type == "Tile") return operand(n, 0, at, depth);
  if (type == "Transpose") return transposed(n, at, depth);
  if (type == "Slice") return sliced(n, at, depth);
  if (type == "Concat") return concatenated(n, at, depth);
  if (type == "CumSum") return accumulated(n, at, depth);
  if (type == "Range") return range(n, at, depth);
  if (type == "ConstantOfShape")
    return leaf(n.find<Tensor>("value") ? n.find<Tensor>("value")->to_double().at(0) : 0.0);
  if (type == "Trilu") return triangle(n, at, depth);
  if (type == "ScatterND") return scattered(n, at, depth);
  if (type == "GatherND") return gathered_nd(n, at, depth);
  if (type == "Gather") return gathered(n, at, depth);
  if (type == "Where") return chosen(n, at, depth);
  if (type == "Not") return mapped(n, at, depth, [](const auto& x) { return x[0] == 0 ? 1.0 : 0.0; });
  if (type == "Log") return mapped(n, at, depth, [](const auto& x) { return std::log(x[0]); });
  if (type == "Neg") return mapped(n, at, depth, [](const auto& x) { return -x[0]; });
  return elementwise(n, at, depth);
}

namespace {

// Where index `at` of an axis of size `to` is read along one of size `from`: at the start if that is 1, which for a
// size of another name only a run tells. A Tile reads at `at` modulo `from`, the same wherever broadcasting is allowed.
Dim broadcast_index(const Dim& at, const Dim& from, const Dim& to) {
  if (from.is(1) || at.is(0)) return 0;
  if (from == to || from.clips(to)) return at;
  return from.known() ? Dim::symbol(fmt::format("@{} of {}", at.to_string(), from.to_string())) : Dim();
}

}  // namespace

MaskElement MaskAnalyzer::operand(const Node& n, size_t i, const Dims& at, int depth) {
  const Value* x = n.input(i);
  const Dims* shape = x ? dims(x) : nullptr;
  if (!shape || shape->size() > at.size()) return {};
  const size_t added = at.size() - shape->size();
  Dims own;
  for (size_t axis = 0; axis < shape->size(); ++axis)
    own.push_back(broadcast_index(at[added + axis], (*shape)[axis], (*dims(n.output()))[added + axis]));
  return element(x, own, depth);
}

namespace {

// The element (@0, ..., @rank-1); where an axis has size 1 its index is 0.
MaskElement element_of(const Value& v, const Inference& inference,
                       std::map<std::string, IntegerElement, std::less<>>& used) {
  Dims at;
  IndexSizes sizes;
  for (int axis = 0; axis < v.tensor_type().rank(); ++axis) {
    const Dim size = v.tensor_type().dim(axis), symbol = index_symbol(static_cast<size_t>(axis));
    at.push_back(size.is(1) ? Dim(0) : symbol);
    sizes.emplace(symbol.as_symbol(), size);
  }
  MaskAnalyzer analyzer(inference, std::move(sizes));
  MaskElement e = analyzer.element(&v, at);
  used = analyzer.elements();
  return e;
}

}  // namespace

MaskMeaning analyze_mask(const Value& mask, const Inference& inference) {
  MaskMeaning meaning;
  if (mask.tensor_type().has_rank())
    meaning.tree = MaskAnalyzer::tree_of(element_of(mask, inference, meaning.elements));
  return meaning;
}

Dim analyze_integers(const Value& value, const Inference& inference) {
  std::map<std::string, IntegerElement, std::less<>> used;
  const MaskElement e = element_of(value, inference, used);
  return used.empty() ? e.affine : Dim();
}

}  // namespace attune
