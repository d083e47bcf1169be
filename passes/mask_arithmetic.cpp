// Masks through operators that compute elements: casts, ranges, triangles, choices, arithmetic and comparisons.
#include <algorithm>
#include <array>
#include <cmath>

#include "ops/infer/contents.h"
#include "passes/mask_analyzer.h"
#include "passes/uniform_value.h"

namespace attune {

MaskElement MaskAnalyzer::mapped(const Node& n, const Dims& at, int depth,
                                 const std::function<double(const std::vector<double>&)>& f) {
  std::vector<MaskTreePtr> trees;
  for (size_t i = 0; i < n.inputs().size(); ++i) {
    trees.push_back(tree_of(operand(n, i, at, depth)));
    if (!trees.back()) return {};
  }
  return {{}, combine(trees, f)};
}

MaskElement MaskAnalyzer::cast(const Node& n, const Dims& at, int depth) {
  const MaskElement x = element(n.input(0), at, depth);
  const auto to = static_cast<DataType>(n.attr_int("to", 0));
  const MaskTreePtr t = tree_of(x);
  if (t) return typed(t, to);
  // An index as a number: still compared as an integer, where all that are met are told apart.
  constexpr std::array kWide = {DataType::kInt32, DataType::kInt64, DataType::kFloat, DataType::kDouble};
  return std::find(kWide.begin(), kWide.end(), to) != kWide.end() ? x : MaskElement{};
}

MaskElement MaskAnalyzer::typed(const MaskTreePtr& tree, DataType type) {
  const auto lost = [&](double x) {
    return is_integer(type) && !(std::abs(x) < 1e15 && fit_to(type, Dim(static_cast<int64_t>(x))).known());
  };
  const std::vector<double> leaves = MaskTree::leaves(tree);
  if (std::any_of(leaves.begin(), leaves.end(), lost)) return {};
  return {{}, combine({tree}, [type](const auto& v) { return cast_number(v[0], type); })};
}

MaskElement MaskAnalyzer::range(const Node& n, const Dims& at, int depth) {
  const Dim start = affine_of(element(n.input(0), {}, depth)), step = affine_of(element(n.input(2), {}, depth));
  return {start + at[0] * step, nullptr};
}

MaskElement MaskAnalyzer::triangle(const Node& n, const Dims& at, int depth) {
  const Dim k = n.input(1) ? affine_of(element(n.input(1), {}, depth)) : Dim(0);
  const MaskTreePtr x = tree_of(element(n.input(0), at, depth));
  if (at.size() < 2 || !x) return {};
  const Dim beyond = at[at.size() - 1] - at[at.size() - 2] - k;  // >= 0: on or above the diagonal k
  const MaskTreePtr kept = n.attr_int("upper", 1) != 0 ? not_negative(beyond) : not_negative(Dim(0) - beyond);
  if (!kept) return {};
  return {{}, combine({kept, x}, [](const auto& v) { return v[0] != 0 ? v[1] : 0.0; })};
}

MaskElement MaskAnalyzer::chosen(const Node& n, const Dims& at, int depth) {
  const MaskTreePtr condition = tree_of(operand(n, 0, at, depth));
  if (!condition) return {};
  if (!condition->atom) return operand(n, condition->leaf != 0 ? 1 : 2, at, depth);
  return mapped(n, at, depth, [](const auto& v) { return v[0] != 0 ? v[1] : v[2]; });
}

MaskElement MaskAnalyzer::elementwise(const Node& n, const Dims& at, int depth) {
  if (n.inputs().size() != 2) return {};
  const MaskElement a = operand(n, 0, at, depth), b = operand(n, 1, at, depth);
  const Dim x = affine_of(a), y = affine_of(b);
  const bool affine = x.known() && y.known() && (a.affine.known() || b.affine.known());
  const std::string& type = n.type();
  const DataType result = n.output()->element_type();
  if (affine) {
    const auto fit = [&](const Dim& d) { return is_integer(result) ? fit_to(result, d) : d; };
    if (type == "Add") return {fit(x + y), nullptr};
    if (type == "Sub") return {fit(x - y), nullptr};
    if (type == "Mul") return {fit(x * y), nullptr};
    if (type == "Greater") return {{}, not_negative(x - y - 1)};
    if (type == "GreaterOrEqual") return {{}, not_negative(x - y)};
    if (type == "Less") return {{}, not_negative(y - x - 1)};
    if (type == "LessOrEqual") return {{}, not_negative(y - x)};
    if (type == "Equal" && x == y) return leaf(1);
  }
  const MaskTreePtr s = tree_of(a), t = tree_of(b);
  const auto f = operation(type);
  if (!s || !t || !f) return {};
  return typed(combine({s, t}, [&](const auto& v) { return f(v[0], v[1]); }), result);
}

std::function<double(double, double)> MaskAnalyzer::operation(const std::string& type) {
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

}  // namespace attune
