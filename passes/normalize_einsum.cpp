// Einsum of two operands that is a batched matrix product:  b..ij, b..jk -> b..ik, in any order of labels
#include <algorithm>

#include "passes/passes.h"
#include "passes/rules.h"

namespace attune {
namespace {

using pattern::any;
using pattern::Builder;
using pattern::Match;
using pattern::Op;
using pattern::Outcome;

struct Equation {
  std::string left, right, result;
};

// Labels of "ij,jk->ik"; nothing for other forms (an ellipsis, one operand, no arrow).
std::optional<Equation> parse(std::string text) {
  std::erase(text, ' ');
  const size_t comma = text.find(','), arrow = text.find("->");
  if (comma == std::string::npos || arrow == std::string::npos || comma > arrow ||
      text.find('.') != std::string::npos || text.find(',', comma + 1) != std::string::npos)
    return std::nullopt;
  return Equation{text.substr(0, comma), text.substr(comma + 1, arrow - comma - 1), text.substr(arrow + 2)};
}

bool has(const std::string& labels, char c) { return labels.find(c) != std::string::npos; }

bool distinct(std::string labels) {
  std::sort(labels.begin(), labels.end());
  return std::adjacent_find(labels.begin(), labels.end()) == labels.end();
}

// The product's parts: labels of the batch, and one label each of rows, columns and what is summed.
struct Product {
  std::string batch;
  char row = 0, column = 0, inner = 0;
};

std::optional<Product> product_of(const Equation& e) {
  if (!distinct(e.left) || !distinct(e.right) || !distinct(e.result)) return std::nullopt;
  Product p;
  for (const char c : e.result) {
    const bool l = has(e.left, c), r = has(e.right, c);
    if (l && r) {
      p.batch += c;
    } else if (l && p.row == 0) {
      p.row = c;
    } else if (r && p.column == 0) {
      p.column = c;
    } else {
      return std::nullopt;
    }
  }
  for (const char c : e.left) {
    if (has(e.result, c)) continue;
    if (!has(e.right, c) || p.inner != 0) return std::nullopt;
    p.inner = c;
  }
  const bool complete = p.row != 0 && p.column != 0 && p.inner != 0;
  return complete && e.left.size() == p.batch.size() + 2 && e.right.size() == p.batch.size() + 2 ? std::optional(p)
                                                                                                 : std::nullopt;
}

Value* reordered(Builder& b, Value* x, const std::string& from, const std::string& to) {
  std::vector<int64_t> perm;
  for (const char c : to) perm.push_back(static_cast<int64_t>(from.find(c)));
  return std::is_sorted(perm.begin(), perm.end()) ? x : b.transpose(x, perm);
}

}  // namespace

namespace rules {

pattern::Rule einsum_product() {
  return {"normalize_einsum", Op("Einsum", "einsum")(any("left"), any("right")),
          [](const Match& m, Builder& b) -> Outcome {
            const auto equation = parse(m.node("einsum")->attr_string("equation", ""));
            const auto product = equation ? product_of(*equation) : std::nullopt;
            if (!product) return m.refuse("einsum", "is not a batched matrix product");
            const auto labels = [&](char first, char second) { return product->batch + first + second; };
            Value* left = reordered(b, m["left"], equation->left, labels(product->row, product->inner));
            Value* right = reordered(b, m["right"], equation->right, labels(product->inner, product->column));
            return reordered(b, b.op("MatMul", {left, right}), labels(product->row, product->column), equation->result);
          }};
}

}  // namespace rules
}  // namespace attune
