// Masks through operators that take elements from other places: shapes, slices, joins, gathers.
#include "passes/mask_analyzer.h"
#include "passes/node_facts.h"

namespace attune {

MaskElement MaskAnalyzer::reshaped(const Node& n, const Dims& at, int depth) {
  const Dims *from = dims(n.input(0)), *to = dims(n.output());
  if (!from) return {};
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
  return j == to->size() ? element(n.input(0), own, depth) : MaskElement{};
}

MaskElement MaskAnalyzer::transposed(const Node& n, const Dims& at, int depth) {
  if (!n.has("perm")) return element(n.input(0), Dims(at.rbegin(), at.rend()), depth);
  const std::vector<int64_t> perm = n.attr_ints("perm");
  if (perm.size() != at.size()) return {};  // the rank of what is transposed isn't known
  Dims own(at.size());
  for (size_t i = 0; i < perm.size(); ++i) own[static_cast<size_t>(perm[i])] = at[i];
  return element(n.input(0), own, depth);
}

MaskElement MaskAnalyzer::sliced(const Node& n, const Dims& at, int depth) {
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
    const auto axis = static_cast<size_t>(from_front(axes[i], static_cast<int64_t>(at.size())));
    Dim start = (*starts)[i];
    if (steps[i] != 1) return {};
    if (const auto c = start.constant(); c && *c < 0) start = (*shape)[axis] + start;
    if (!start.at_least(0)) return {};
    own[axis] = own[axis] + start;
  }
  return element(n.input(0), own, depth);
}

MaskElement MaskAnalyzer::concatenated(const Node& n, const Dims& at, int depth) {
  const auto axis = static_cast<size_t>(from_front(n.attr_int("axis", 0), static_cast<int64_t>(at.size())));
  MaskElement result;
  Dim end(0);
  std::vector<std::pair<Dim, MaskElement>> parts;  // first index, element
  for (const Value* x : n.inputs()) {
    Dims own = at;
    own[axis] = at[axis] - end;
    const Dim begin = end, size = x->tensor_type().dim(static_cast<int>(axis));
    if (size.is(1)) own[axis] = 0;
    end = end + size;
    // A constant index falls into one part.
    if (const auto i = at[axis].constant(), b = begin.constant(), e = end.constant(); i && b && e) {
      if (*i >= *b && *i < *e) return element(x, own, depth);
      continue;
    }
    // Nor is one that is never in front of this part in an earlier one.
    const MaskTreePtr inside = not_negative(at[axis] - begin);
    if (inside && !inside->atom && inside->leaf != 0) parts.clear();
    parts.emplace_back(begin, element(x, own, depth));
  }
  if (parts.size() == 1) return parts[0].second;
  if (const Dim same = one_expression(parts, at[axis]); same.known()) return {same, nullptr};
  if (parts.empty()) return {};
  MaskTreePtr tree = tree_of(parts[0].second);
  for (size_t i = 1; tree && i < parts.size(); ++i) {
    const MaskTreePtr inside = not_negative(at[axis] - parts[i].first), part = tree_of(parts[i].second);
    if (!inside || !part) return {};
    tree = combine({inside, part, tree}, [](const auto& v) { return v[0] != 0 ? v[1] : v[2]; });
  }
  return {{}, tree};
}

// Of parts (first index, element) whose elements the expression of the last one gives, too; those in front of it have
// one element each.
Dim MaskAnalyzer::one_expression(const std::vector<std::pair<Dim, MaskElement>>& parts, const Dim& index) {
  if (parts.empty() || index.as_symbol().empty()) return {};
  const Dim last = parts.back().second.affine;
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    const Dim& begin = parts[i].first;
    const Dim next = parts[i + 1].first - begin;
    if (!next.is(1) || !(last.substitute({{index.as_symbol(), begin}}) == parts[i].second.affine)) return {};
  }
  return last;
}

// Sums of zeros up to an index.
MaskElement MaskAnalyzer::accumulated(const Node& n, const Dims& at, int depth) {
  const auto axis = inference_.constant_integers(n.input(1));
  if (!axis || n.attr_int("reverse", 0) != 0) return {};
  const auto a = static_cast<size_t>(from_front((*axis)[0], static_cast<int64_t>(at.size())));
  if (!sizes_.contains(at[a].as_symbol())) return {};
  const MaskElement x = element(n.input(0), at, depth);
  return affine_of(x).is(0) ? x : MaskElement{};
}

MaskElement MaskAnalyzer::scattered(const Node& n, const Dims& at, int depth) {
  Dims all = *dims(n.output());
  all.emplace_back(static_cast<int64_t>(at.size()));
  if (n.attr_string("reduction", "none") != "none" || n.input(1)->tensor_type().shape != all) return {};
  for (size_t c = 0; c < at.size(); ++c) {
    Dims own = at;
    own.emplace_back(static_cast<int64_t>(c));
    const Dim index = affine_of(element(n.input(1), own, depth));
    // An axis of size 1 has the one index 0.
    if (!(index == at[c]) && !(index.is(0) && all[c].is(1))) return {};
  }
  return element(n.input(2), at, depth);
}

MaskElement MaskAnalyzer::gathered_nd(const Node& n, const Dims& at, int depth) {
  const auto count = n.input(1)->tensor_type().dim(-1).constant();
  if (!count) return {};
  Dims own;
  for (int64_t c = 0; c < *count; ++c) {
    Dims where = at;
    where.emplace_back(c);
    own.push_back(affine_of(element(n.input(1), where, depth)));
    if (has_elements(own.back()) || !own.back().at_least(0)) return {};
  }
  return element(n.input(0), own, depth);
}

MaskElement MaskAnalyzer::gathered(const Node& n, const Dims& at, int depth) {
  const Dims *data = dims(n.input(0)), *indices = dims(n.input(1));
  if (!data || !indices) return {};
  const int64_t axis = from_front(n.attr_int("axis", 0), static_cast<int64_t>(data->size()));
  const auto a = static_cast<size_t>(axis), r = indices->size();
  const Dims where(at.begin() + static_cast<std::ptrdiff_t>(a), at.begin() + static_cast<std::ptrdiff_t>(a + r));
  const Dim index = affine_of(element(n.input(1), where, depth));
  if (has_elements(index) || !index.at_least(0)) return {};
  Dims own(at.begin(), at.begin() + static_cast<std::ptrdiff_t>(a));
  own.push_back(index);
  own.insert(own.end(), at.begin() + static_cast<std::ptrdiff_t>(a + r), at.end());
  return element(n.input(0), own, depth);
}

}  // namespace attune
