#include "passes/mask_analysis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "passes/comparisons.h"
#include "passes/uniform_value.h"

namespace attune {

Dim index_symbol(size_t axis) { return Dim::symbol(fmt::format("@{}", axis)); }

namespace {

constexpr int kMaxDepth = 200;
constexpr size_t kMaxTreeSize = 256;

// The value of one element: an integer expression of indices and sizes, or a tree. Neither: not understood.
struct Element {
  Dim affine;
  MaskTreePtr tree;
  bool understood() const { return affine.known() || tree; }
};

using Sizes = std::map<std::string, Dim, std::less<>>;  // of index symbols

// Lengths and positions may be negative, which sizes are not.
bool has_elements(const Dim& e) {
  const auto symbols = e.symbols();
  return std::any_of(symbols.begin(), symbols.end(), [](const std::string& s) { return s.starts_with("$"); });
}

// Whether `e` >= 0 for all indices: each at the end of its axis where `e` is smallest.
bool is_never_negative(const Dim& e, const Sizes& sizes) {
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

// 1 where the integer expression is >= 0, else 0.
MaskTreePtr not_negative_for(const Dim& e, const Sizes& sizes) {
  if (!e.known()) return nullptr;
  if (is_never_negative(e, sizes)) return make_leaf(1);
  const Dim opposite = Dim(-1) - e;  // e < 0
  if (is_never_negative(opposite, sizes)) return make_leaf(0);
  // Of e >= 0 and its negation the one whose text is smaller, so that both are one atom.
  const bool as_is = e.to_string() <= opposite.to_string();
  MaskAtom atom{nullptr, {}, as_is ? e : opposite};
  return make_node(atom, make_leaf(as_is ? 1 : 0), make_leaf(as_is ? 0 : 1));
}

class Analyzer {
 public:
  Analyzer(const Inference& inference, Sizes sizes) : inference_(inference), sizes_(std::move(sizes)) {}

  // `at` has an index for each axis of `v`.
  Element element(const Value* v, const Dims& at, int depth = 0) {
    if (!v || depth > kMaxDepth) return {};
    const auto key = std::pair(v, to_string(at));
    if (const auto it = known_.find(key); it != known_.end()) return it->second;
    Element e = follow(*v, at, depth + 1);
    if (e.tree && size_of(e.tree) > kMaxTreeSize) e = {};
    if (!e.understood()) e = opaque(*v, at);
    known_.emplace(key, e);
    return e;
  }

  const std::map<std::string, IntegerElement, std::less<>>& elements() const { return elements_; }

  static MaskTreePtr tree_of(const Element& e) {
    if (e.tree) return e.tree;
    if (const auto c = e.affine.constant()) return make_leaf(static_cast<double>(*c));
    return nullptr;
  }

 private:
  MaskTreePtr not_negative(const Dim& e) const { return not_negative_for(e, sizes_); }

  static Dim affine_of(const Element& e) {
    if (e.affine.known()) return e.affine;
    if (e.tree && !e.tree->atom && e.tree->leaf == std::floor(e.tree->leaf) && std::abs(e.tree->leaf) < 1e15)
      return Dim(static_cast<int64_t>(e.tree->leaf));
    return {};
  }

  static Element leaf(double value) { return {{}, make_leaf(value)}; }

  const Dims* dims(const Value* v) const { return v->tensor_type().shape ? &*v->tensor_type().shape : nullptr; }

  Element follow(const Value& v, const Dims& at, int depth) {
    if (const auto known = small_contents(v, at); known.understood()) return known;
    if (const Tensor* t = v.constant()) return constant(*t, at);
    if (v.is_graph_input() && !v.graph()->parent_node()) return input(v, at);
    const Node* n = v.producer();
    if (!n || !n->domain().empty() || v.output_index() != 0) return {};
    return node(*n, at, depth);
  }

  // A scalar or an element of a small tensor that inference knows as an expression.
  Element small_contents(const Value& v, const Dims& at) const {
    const SymbolicTensor* c = inference_.contents(&v);
    if (!c || at.size() > 1 || c->shape.size() != at.size()) return {};
    const auto i = at.empty() ? std::optional<int64_t>(0) : at[0].constant();
    if (!i || *i < 0 || static_cast<size_t>(*i) >= c->size()) return {};
    if (!c->is_integer()) {
      const auto real = c->reals[static_cast<size_t>(*i)];
      return real ? leaf(*real) : Element{};
    }
    return {c->integers[static_cast<size_t>(*i)], nullptr};
  }

  // All elements the same, or integers that count along the last axis.
  static Element constant(const Tensor& t, const Dims& at) {
    if (t.type() == DataType::kString || t.count() == 0 || t.count() > 65536) return {};
    const std::vector<double> values = t.to_contiguous().to_double();
    if (std::all_of(values.begin(), values.end(), [&](double x) { return x == values[0]; })) return leaf(values[0]);
    if (!is_integer(t.type()) || at.size() != t.rank() || std::abs(values[0]) > 1e9) return {};
    const auto row = static_cast<size_t>(t.dim(t.rank() - 1));
    for (size_t i = 0; i < values.size(); ++i)
      if (values[i] != values[0] + static_cast<double>(i % row)) return {};
    return {Dim(static_cast<int64_t>(values[0])) + at.back(), nullptr};
  }

  // True if the integers of `v` select rows of something: ids, not a mask.
  static bool selects_rows(const Value& v, int depth = 0) {
    for (const Use& u : v.uses()) {
      if (u.node->is("Gather") && u.index == 1) return true;
      const bool passed_on =
          u.node->is("Cast") || u.node->is("Reshape") || u.node->is("Unsqueeze") || u.node->is("Squeeze");
      if (passed_on && u.index == 0 && depth < 4 && selects_rows(*u.node->output(), depth + 1)) return true;
    }
    return false;
  }

  // True if a comparison may tell 1 from another number that isn't 0: ids or segments, and the comparison is the mask.
  static bool tells_numbers_apart(const Value& v) {
    const std::vector<Use> all = comparisons_of(v);
    return std::any_of(all.begin(), all.end(), [](const Use& u) {
      const auto number = compared_with(u);
      return !u.node->is("Equal") || !number || *number != 0;
    });
  }

  static bool all_known(const Dims& at) {
    return std::all_of(at.begin(), at.end(), [](const Dim& d) { return d.known(); });
  }

  // An element of a mask of 0 and 1, or a length or position.
  Element input(const Value& v, const Dims& at) {
    const DataType type = v.element_type();
    if (type != DataType::kBool && (!is_integer(type) || at.size() < 2 || selects_rows(v) || tells_numbers_apart(v)))
      return {};
    if (!all_known(at)) return {};
    return {{}, make_node({&v, at, {}}, make_leaf(1), make_leaf(0))};
  }

  // An element that can't be followed: a condition, or a length or position.
  Element opaque(const Value& v, const Dims& at) {
    const DataType type = v.element_type();
    if (!all_known(at)) return {};
    if (type == DataType::kBool) return {{}, make_node({&v, at, {}}, make_leaf(1), make_leaf(0))};
    if ((type != DataType::kInt64 && type != DataType::kInt32) || at.size() > 1) return {};
    const std::string symbol = fmt::format("${}{}", static_cast<const void*>(&v), to_string(at));
    elements_.emplace(symbol, IntegerElement{&v, at});
    return {Dim::symbol(symbol), nullptr};
  }

  Element node(const Node& n, const Dims& at, int depth) {
    const std::string& type = n.type();
    if (type == "Identity") return element(n.input(0), at, depth);
    if (type == "Cast") return cast(n, at, depth);
    if (type == "Unsqueeze" || type == "Squeeze" || type == "Reshape" || type == "Expand")
      return reshaped(n, at, depth);
    if (type == "Tile") return tiled(n, at, depth);
    if (type == "Transpose") return transposed(n, at, depth);
    if (type == "Slice") return sliced(n, at, depth);
    if (type == "Concat") return concatenated(n, at, depth);
    if (type == "Range") return range(n, at, depth);
    if (type == "ConstantOfShape")
      return leaf(n.find<Tensor>("value") ? n.find<Tensor>("value")->to_double().at(0) : 0.0);
    if (type == "Trilu") return triangle(n, at, depth);
    if (type == "ScatterND") return scattered(n, at, depth);
    if (type == "GatherND") return gathered_nd(n, at, depth);
    if (type == "Gather") return gathered(n, at, depth);
    if (type == "Where") return chosen(n, at, depth);
    if (type == "Not") return mapped(n, at, depth, [](const auto& x) { return x[0] == 0 ? 1.0 : 0.0; });
    if (type == "Neg") return mapped(n, at, depth, [](const auto& x) { return -x[0]; });
    return elementwise(n, at, depth);
  }

  Element operand(const Node& n, size_t i, const Dims& at, int depth) {
    const Value* x = n.input(i);
    const Dims* shape = x ? dims(x) : nullptr;
    if (!shape || shape->size() > at.size()) return {};
    Dims own;
    for (size_t axis = 0; axis < shape->size(); ++axis) {
      const size_t from = at.size() - shape->size() + axis;
      own.push_back((*shape)[axis].is(1) ? Dim(0) : at[from]);
    }
    return element(x, own, depth);
  }

  Element mapped(const Node& n, const Dims& at, int depth, const std::function<double(const std::vector<double>&)>& f) {
    std::vector<MaskTreePtr> trees;
    for (size_t i = 0; i < n.inputs().size(); ++i) {
      trees.push_back(tree_of(operand(n, i, at, depth)));
      if (!trees.back()) return {};
    }
    return {{}, combine(trees, f)};
  }

  Element cast(const Node& n, const Dims& at, int depth) {
    const Element x = element(n.input(0), at, depth);
    const auto to = static_cast<DataType>(n.attr_int("to", 0));
    if (!x.understood()) return {};
    if (x.affine.known() && is_integer(to)) return x;
    const MaskTreePtr t = tree_of(x);
    if (!t) return is_float(to) ? x : Element{};  // an index as a number: still compared as an integer
    return {{}, combine({t}, [to](const auto& v) { return cast_number(v[0], to); })};
  }

  // Shapes that differ in axes of size 1 only, and axes of size 1 that are repeated.
  Element reshaped(const Node& n, const Dims& at, int depth) {
    const Dims *from = dims(n.input(0)), *to = dims(n.output());
    if (!from || !to) return {};
    if (n.is("Expand")) return operand(n, 0, at, depth);
    Dims own;
    size_t j = 0;
    for (const Dim& d : *from) {
      if (d.is(1)) {
        own.emplace_back(0);
        continue;
      }
      while (j < to->size() && (*to)[j].is(1)) ++j;
      if (j == to->size() || !((*to)[j] == d)) return {};
      own.push_back(at[j++]);
    }
    while (j < to->size() && (*to)[j].is(1)) ++j;
    return j == to->size() ? element(n.input(0), own, depth) : Element{};
  }

  // Copies along axes of size 1.
  Element tiled(const Node& n, const Dims& at, int depth) {
    const Dims *from = dims(n.input(0)), *to = dims(n.output());
    if (!from || !to) return {};
    for (size_t axis = 0; axis < from->size(); ++axis)
      if (!(*from)[axis].is(1) && !((*from)[axis] == (*to)[axis])) return {};
    return operand(n, 0, at, depth);
  }

  Element transposed(const Node& n, const Dims& at, int depth) {
    const std::vector<int64_t> perm = n.attr_ints("perm");
    if (perm.size() != at.size()) return {};
    Dims own(at.size());
    for (size_t i = 0; i < perm.size(); ++i) own[static_cast<size_t>(perm[i])] = at[i];
    return element(n.input(0), own, depth);
  }

  Element sliced(const Node& n, const Dims& at, int depth) {
    const auto starts = n.input(1) ? inference_.integers(n.input(1)) : std::nullopt;
    const Dims* shape = dims(n.input(0));
    if (!starts || !shape) return {};
    std::vector<int64_t> axes, steps(starts->size(), 1);
    for (size_t i = 0; i < starts->size(); ++i) axes.push_back(static_cast<int64_t>(i));
    if (n.input(3)) axes = inference_.constant_integers(n.input(3)).value_or(std::vector<int64_t>{});
    if (n.input(4)) steps = inference_.constant_integers(n.input(4)).value_or(std::vector<int64_t>{});
    if (axes.size() != starts->size() || steps.size() != starts->size()) return {};
    Dims own = at;
    for (size_t i = 0; i < axes.size(); ++i) {
      const auto axis = static_cast<size_t>(axes[i] < 0 ? axes[i] + static_cast<int64_t>(at.size()) : axes[i]);
      Dim start = (*starts)[i];
      if (steps[i] != 1 || !start.known()) return {};
      if (const auto c = start.constant(); c && *c < 0) start = (*shape)[axis] + start;
      if (has_elements(start) || !start.at_least(0)) return {};
      own[axis] = own[axis] + start;
    }
    return element(n.input(0), own, depth);
  }

  Element concatenated(const Node& n, const Dims& at, int depth) {
    const int64_t attribute = n.attr_int("axis", 0);
    const auto axis = static_cast<size_t>(attribute < 0 ? attribute + static_cast<int64_t>(at.size()) : attribute);
    Element result;
    Dim end(0);
    std::vector<std::pair<Dim, Element>> parts;  // first index, element
    for (const Value* x : n.inputs()) {
      const Dims* shape = dims(x);
      if (!shape || !(*shape)[axis].known()) return {};
      Dims own = at;
      own[axis] = at[axis] - end;
      const Dim begin = end;
      end = end + (*shape)[axis];
      // A constant index falls into one part.
      if (const auto i = at[axis].constant(), b = begin.constant(), e = end.constant(); i && b && e) {
        if (*i >= *b && *i < *e) return element(x, own, depth);
        continue;
      }
      parts.emplace_back(begin, element(x, own, depth));
      if (!tree_of(parts.back().second)) return {};
    }
    if (parts.empty()) return {};
    MaskTreePtr tree = tree_of(parts[0].second);
    for (size_t i = 1; i < parts.size(); ++i) {
      const MaskTreePtr inside = not_negative(at[axis] - parts[i].first);
      if (!inside) return {};
      tree = combine({inside, tree_of(parts[i].second), tree}, [](const auto& v) { return v[0] != 0 ? v[1] : v[2]; });
    }
    return {{}, tree};
  }

  Element range(const Node& n, const Dims& at, int depth) {
    const Dim start = affine_of(element(n.input(0), {}, depth)), step = affine_of(element(n.input(2), {}, depth));
    if (at.size() != 1 || !start.known() || !step.known()) return {};
    return {start + at[0] * step, nullptr};
  }

  Element triangle(const Node& n, const Dims& at, int depth) {
    const Dim k = n.input(1) ? affine_of(element(n.input(1), {}, depth)) : Dim(0);
    const MaskTreePtr x = tree_of(element(n.input(0), at, depth));
    if (at.size() < 2 || !x || !k.known()) return {};
    const Dim beyond = at[at.size() - 1] - at[at.size() - 2] - k;  // >= 0: on or above the diagonal k
    const MaskTreePtr kept = n.attr_int("upper", 1) != 0 ? not_negative(beyond) : not_negative(Dim(0) - beyond);
    if (!kept) return {};
    return {{}, combine({kept, x}, [](const auto& v) { return v[0] != 0 ? v[1] : 0.0; })};
  }

  // Updates for every element, at the element's own index.
  Element scattered(const Node& n, const Dims& at, int depth) {
    const Dims *data = dims(n.input(0)), *indices = dims(n.input(1));
    if (!data || !indices || n.attr_string("reduction", "none") != "none" || indices->size() != data->size() + 1)
      return {};
    if (!std::equal(data->begin(), data->end(), indices->begin()) ||
        !indices->back().is(static_cast<int64_t>(data->size())))
      return {};
    for (size_t c = 0; c < at.size(); ++c) {
      Dims own = at;
      own.emplace_back(static_cast<int64_t>(c));
      const Dim index = affine_of(element(n.input(1), own, depth));
      // An axis of size 1 has the one index 0.
      if (!(index == at[c]) && !(index.is(0) && (*data)[c].is(1))) return {};
    }
    return element(n.input(2), at, depth);
  }

  Element gathered_nd(const Node& n, const Dims& at, int depth) {
    const Dims *data = dims(n.input(0)), *indices = dims(n.input(1));
    if (!data || !indices) return {};
    const auto count = indices->back().constant();
    if (!count || static_cast<size_t>(*count) != data->size()) return {};  // elements, not rows of them
    Dims own;
    for (int64_t c = 0; c < *count; ++c) {
      Dims where = at;
      where.emplace_back(c);
      own.push_back(affine_of(element(n.input(1), where, depth)));
      if (!own.back().known()) return {};
    }
    return element(n.input(0), own, depth);
  }

  Element gathered(const Node& n, const Dims& at, int depth) {
    const Dims *data = dims(n.input(0)), *indices = dims(n.input(1));
    if (!data || !indices) return {};
    int64_t axis = n.attr_int("axis", 0);
    if (axis < 0) axis += static_cast<int64_t>(data->size());
    const auto a = static_cast<size_t>(axis), r = indices->size();
    const Dims where(at.begin() + static_cast<std::ptrdiff_t>(a), at.begin() + static_cast<std::ptrdiff_t>(a + r));
    const Dim index = affine_of(element(n.input(1), where, depth));
    if (!index.known() || has_elements(index) || !index.at_least(0)) return {};
    Dims own(at.begin(), at.begin() + static_cast<std::ptrdiff_t>(a));
    own.push_back(index);
    own.insert(own.end(), at.begin() + static_cast<std::ptrdiff_t>(a + r), at.end());
    return element(n.input(0), own, depth);
  }

  Element chosen(const Node& n, const Dims& at, int depth) {
    const MaskTreePtr condition = tree_of(operand(n, 0, at, depth));
    if (!condition) return {};
    if (!condition->atom) return operand(n, condition->leaf != 0 ? 1 : 2, at, depth);
    return mapped(n, at, depth, [](const auto& v) { return v[0] != 0 ? v[1] : v[2]; });
  }

  Element elementwise(const Node& n, const Dims& at, int depth) {
    if (n.inputs().size() != 2) return {};
    const Element a = operand(n, 0, at, depth), b = operand(n, 1, at, depth);
    if (!a.understood() || !b.understood()) return {};
    const Dim x = affine_of(a), y = affine_of(b);
    const bool affine = x.known() && y.known() && (a.affine.known() || b.affine.known());
    const std::string& type = n.type();
    if (affine) {
      if (type == "Add") return {x + y, nullptr};
      if (type == "Sub") return {x - y, nullptr};
      if (type == "Mul") return {x * y, nullptr};
      if (type == "Greater") return {{}, not_negative(x - y - 1)};
      if (type == "GreaterOrEqual") return {{}, not_negative(x - y)};
      if (type == "Less") return {{}, not_negative(y - x - 1)};
      if (type == "LessOrEqual") return {{}, not_negative(y - x)};
      if (type == "Equal" && x == y) return leaf(1);
    }
    const MaskTreePtr s = tree_of(a), t = tree_of(b);
    const auto f = operation(type);
    if (!s || !t || !f) return {};
    const bool rounds = n.output()->element_type() == DataType::kFloat;
    return {{}, combine({s, t}, [&](const auto& v) {
              const double result = f(v[0], v[1]);
              return rounds ? static_cast<double>(static_cast<float>(result)) : result;
            })};
  }

  static std::function<double(double, double)> operation(const std::string& type) {
    if (type == "Add") return [](double a, double b) { return a + b; };
    if (type == "Sub") return [](double a, double b) { return a - b; };
    if (type == "Mul") return [](double a, double b) { return a * b; };
    if (type == "Div") return [](double a, double b) { return a / b; };
    if (type == "Min") return [](double a, double b) { return std::min(a, b); };
    if (type == "Max") return [](double a, double b) { return std::max(a, b); };
    if (type == "And") return [](double a, double b) { return a != 0 && b != 0 ? 1.0 : 0.0; };
    if (type == "Or") return [](double a, double b) { return a != 0 || b != 0 ? 1.0 : 0.0; };
    if (type == "Equal") return [](double a, double b) { return a == b ? 1.0 : 0.0; };
    if (type == "Greater") return [](double a, double b) { return a > b ? 1.0 : 0.0; };
    if (type == "Less") return [](double a, double b) { return a < b ? 1.0 : 0.0; };
    if (type == "GreaterOrEqual") return [](double a, double b) { return a >= b ? 1.0 : 0.0; };
    if (type == "LessOrEqual") return [](double a, double b) { return a <= b ? 1.0 : 0.0; };
    return nullptr;
  }

  const Inference& inference_;
  Sizes sizes_;
  std::map<std::pair<const Value*, std::string>, Element> known_;
  std::map<std::string, IntegerElement, std::less<>> elements_;
};

}  // namespace

namespace {

// The element (@0, ..., @rank-1); where an axis has size 1 its index is 0.
Element element_of(const Value& v, const Inference& inference,
                   std::map<std::string, IntegerElement, std::less<>>& used) {
  Dims at;
  Sizes sizes;
  for (int axis = 0; axis < v.tensor_type().rank(); ++axis) {
    const Dim size = v.tensor_type().dim(axis), symbol = index_symbol(static_cast<size_t>(axis));
    at.push_back(size.is(1) ? Dim(0) : symbol);
    sizes.emplace(symbol.as_symbol(), size);
  }
  Analyzer analyzer(inference, std::move(sizes));
  Element e = analyzer.element(&v, at);
  used = analyzer.elements();
  return e;
}

}  // namespace

MaskMeaning analyze_mask(const Value& mask, const Inference& inference) {
  MaskMeaning meaning;
  if (mask.tensor_type().has_rank()) meaning.tree = Analyzer::tree_of(element_of(mask, inference, meaning.elements));
  return meaning;
}

Dim analyze_integers(const Value& value, const Inference& inference) {
  std::map<std::string, IntegerElement, std::less<>> used;
  if (!value.tensor_type().has_rank()) return {};
  const Element e = element_of(value, inference, used);
  return used.empty() ? e.affine : Dim();
}

}  // namespace attune
