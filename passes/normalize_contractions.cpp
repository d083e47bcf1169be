// Sums of products as MatMul:  Einsum of two or three operands, and ReduceSum(x * y) over one axis
#include "passes/attention_node.h"
#include "passes/contraction.h"
#include "passes/node_facts.h"
#include "passes/passes.h"
#include "passes/rules.h"

namespace attune {
namespace {

using pattern::any;
using pattern::Builder;
using pattern::Match;
using pattern::Op;
using pattern::Outcome;

// The equation with letters of its own for the axes of "...", which all operands that have it share; as it is where
// that doesn't hold.
std::string without_ellipsis(std::string equation, const std::vector<const Value*>& operands) {
  constexpr std::string_view kEllipsis = "...";
  std::erase(equation, ' ');
  std::string letters;
  Dims shared;
  std::vector<std::string> terms(1);
  for (const char c : equation.substr(0, equation.find("->"))) {
    if (c == ',') {
      terms.emplace_back();
    } else {
      terms.back() += c;
    }
  }
  for (size_t i = 0; i < terms.size() && i < operands.size(); ++i) {
    const size_t at = terms[i].find(kEllipsis);
    const auto& shape = operands[i]->tensor_type().shape;
    if (at == std::string::npos) continue;
    const size_t written = terms[i].size() - kEllipsis.size();
    if (!shape) return equation;
    const auto begin = shape->begin() + static_cast<std::ptrdiff_t>(at);
    const Dims axes(begin, begin + static_cast<std::ptrdiff_t>(shape->size() - written));
    if (!letters.empty() && axes != shared) return equation;
    shared = axes;
    for (char c = 'A'; letters.size() < axes.size() && c <= 'Z'; ++c)
      if (equation.find(c) == std::string::npos) letters += c;
  }
  for (size_t at = equation.find(kEllipsis); at != std::string::npos; at = equation.find(kEllipsis))
    equation.replace(at, kEllipsis.size(), letters);
  return equation;
}

// Labels of "ij,jk->ik": operands, and the result last; nothing for other forms (an ellipsis, no arrow).
std::vector<std::string> parse(std::string text) {
  std::erase(text, ' ');
  const size_t arrow = text.find("->");
  if (arrow == std::string::npos || text.find('.') != std::string::npos) return {};
  std::vector<std::string> labels(1);
  for (const char c : text.substr(0, arrow)) {
    if (c == ',') {
      labels.emplace_back();
    } else {
      labels.back() += c;
    }
  }
  labels.push_back(text.substr(arrow + 2));
  return labels;
}

Outcome rewrite_einsum(const Match& m, Builder& b) {
  std::vector<const Value*> inputs(m.node("einsum")->inputs().begin(), m.node("einsum")->inputs().end());
  const auto labels = parse(without_ellipsis(m.node("einsum")->attr_string("equation", ""), inputs));
  const size_t operands = m["third"] ? 3 : 2;
  if (labels.size() != operands + 1) return m.refuse("einsum", "its equation is not written out");
  Labelled left{m["left"], labels[0]}, right{m["right"], labels[1]};
  if (operands == 3) {
    // The first two, with what the third or the result ask for.
    std::string kept;
    for (const char c : labels[0] + labels[1])
      if (kept.find(c) == std::string::npos && (labels[2] + labels[3]).find(c) != std::string::npos) kept += c;
    Value* first = contract(b, left, right, kept);
    if (!first) return m.refuse("einsum", "is not a product of batched matrix products");
    left = {first, kept};
    right = {m["third"], labels[2]};
  }
  Value* result = contract(b, left, right, labels.back());
  if (!result) return m.refuse("einsum", "is not a batched matrix product");
  return result;
}

pattern::Rule einsum(bool of_three) {
  pattern::Pat pattern = of_three ? Op("Einsum", "einsum")(any("left"), any("right"), any("third"))
                                  : Op("Einsum", "einsum")(any("left"), any("right"));
  return {"normalize_einsum", pattern, rewrite_einsum};
}

// An operand of x * y without its axes of size 1, labelled by the axes of the product that are left.
std::optional<Labelled> labelled(Builder& b, Value* x, const Dims& product) {
  const TensorType& type = x->tensor_type();
  if (!type.shape) return std::nullopt;
  Labelled out{x, {}};
  std::vector<int64_t> ones;
  const size_t offset = product.size() - type.shape->size();
  for (size_t i = 0; i < type.shape->size(); ++i) {
    const Dim& d = (*type.shape)[i];
    if (d == product[offset + i]) {
      out.labels += static_cast<char>('a' + offset + i);
    } else if (d.is(1)) {
      ones.push_back(static_cast<int64_t>(i));
    } else {
      return std::nullopt;
    }
  }
  if (!ones.empty()) out.value = b.squeeze(x, ones);
  return out;
}

Outcome rewrite_sum(const Match& m, Builder& b) {
  const Node& sum = *m.node("sum");
  const auto& shape = m["product"]->tensor_type().shape;
  std::vector<int64_t> axes = sum.attr_ints("axes");
  if (sum.input(1)) axes = m.inference().constant_integers(sum.input(1)).value_or(std::vector<int64_t>{});
  if (!shape || axes.size() != 1) return m.refuse("sum", "is not over one axis");
  if (m["left"] == m["right"]) return m.refuse("product", "is a square");
  const auto rank = static_cast<int64_t>(shape->size());
  const int64_t axis = from_front(axes[0], rank);
  const auto left = labelled(b, m["left"], *shape), right = labelled(b, m["right"], *shape);
  if (!left || !right) return m.refuse("product", "its operands are broadcast in a way that is not known");
  std::string result;
  for (int64_t i = 0; i < rank; ++i)
    if (i != axis) result += static_cast<char>('a' + i);
  Value* contracted = contract(b, *left, *right, result);
  if (!contracted) return m.refuse("sum", "is not a batched matrix product");
  return sum.attr_int("keepdims", 1) != 0 ? b.unsqueeze(contracted, {axis}) : contracted;
}

pattern::Rule sum_of_products() {
  return {"normalize_sum_of_products",
          Op("ReduceSum", "sum").further_inputs()(Op("Mul", "product")(any("left"), any("right"))), rewrite_sum};
}

}  // namespace

namespace rules {

std::vector<pattern::Rule> contraction_forms() { return {einsum(false), einsum(true), sum_of_products()}; }

}  // namespace rules
}  // namespace attune
