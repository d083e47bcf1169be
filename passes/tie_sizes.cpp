// Sizes of inputs that the graph forces to be equal, or to be a number: by a Reshape, (S, B, E) -> (S, H C, E / H)
// needs B = C; by a product, (T, P + 1) (R + 1, E) needs P = R, and (2 B, T, E) (2 C, E, S) needs B = C; by a Concat
// along other axes
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "ops/infer/infer.h"
#include "passes/node_facts.h"
#include "passes/passes.h"

namespace attune {
namespace {

using Bindings = std::map<std::string, Dim, std::less<>>;

constexpr int kMaxSteps = 4;

// The size that `axis` of an operand of a product has to have: that of the other operand that is summed over, or the
// number of its matrices; nothing if it has no such size. (Of one matrix the other operand is assumed to be no copy: as
// everywhere where heads meet, see may_be_equal().)
std::optional<Dim> size_across(const Node& product, size_t operand, int64_t axis) {
  const TensorType &own = product.input(operand)->tensor_type(), &other = product.input(1 - operand)->tensor_type();
  if (axis == own.rank() - (operand == 0 ? 1 : 2)) return other.dim(operand == 0 ? -2 : -1);
  if (axis + 2 >= own.rank() || other.rank() != own.rank()) return std::nullopt;
  const Dim matrices = other.dim(static_cast<int>(axis));
  return matrices.constant().value_or(1) > 1 ? std::optional(matrices) : std::nullopt;
}

// Likewise of a value, for a product to which it goes.
std::optional<Dim> size_in_product(const Value& v, int64_t axis, int steps = 0) {
  for (const Use& u : v.uses()) {
    std::optional<Dim> size;
    if (u.node->is("MatMul")) {
      size = size_across(*u.node, u.index, axis);
    } else if (u.node->is("Transpose") && steps < kMaxSteps) {
      const std::vector<int64_t> perm = u.node->attr_ints("perm");
      const auto moved = std::find(perm.begin(), perm.end(), axis);
      if (moved == perm.end()) continue;
      size = size_in_product(*u.node->output(), moved - perm.begin(), steps + 1);
    }
    if (size) return size;
  }
  return std::nullopt;
}

// Both shapes of a Reshape whose sizes are all written out, or determined by what its result is multiplied with.
std::optional<Dims> written_target(const Node& reshape, const Inference& inference) {
  const auto& from = reshape.input(0)->tensor_type().shape;
  auto target = reshape.input(1) ? inference.integers(reshape.input(1)) : std::nullopt;
  if (!from || !target) return std::nullopt;
  for (size_t i = 0; i < target->size(); ++i) {
    Dim& d = (*target)[i];
    if (d.is(-1)) {
      const auto size = size_in_product(*reshape.output(), static_cast<int64_t>(i));
      if (!size) return std::nullopt;
      d = *size;
    }
    if (!d.is(0)) continue;
    if (reshape.attr_int("allowzero", 0) != 0) return std::nullopt;
    d = (*from)[i];
  }
  return target;
}

struct Product {
  std::vector<std::string> symbols;
  int64_t factor = 1;
};

std::optional<Product> product_of(const Dims& dims) {
  Dim product = 1;
  for (const Dim& d : dims) product = product * d;
  const auto summands = product.summands();
  if (!summands || summands->size() != 1) return std::nullopt;
  return Product{summands->front().symbols, summands->front().factor};
}

void cancel(Product& a, Product& b) {
  for (auto it = a.symbols.begin(); it != a.symbols.end();) {
    const auto other = std::find(b.symbols.begin(), b.symbols.end(), *it);
    if (other == b.symbols.end()) {
      ++it;
      continue;
    }
    b.symbols.erase(other);
    it = a.symbols.erase(it);
  }
}

class Equations {
 public:
  explicit Equations(const Graph& graph) {
    for (const Value* input : graph.inputs()) {
      if (!input->tensor_type().shape) continue;
      for (const Dim& d : *input->tensor_type().shape)
        if (const std::string s = d.as_symbol(); !s.empty() && !rank_.contains(s)) rank_.emplace(s, rank_.size());
    }
  }

  // The symbol that `a` = `b` determines, and its value. Of two, the one that inputs have first stays.
  std::optional<std::pair<std::string, Dim>> solve(Product a, Product b) const {
    cancel(a, b);
    if (a.symbols.size() < b.symbols.size()) std::swap(a, b);
    if (a.symbols.size() != 1 || !rank_.contains(a.symbols[0])) return std::nullopt;
    if (b.symbols.empty()) {
      if (b.factor % a.factor != 0) return std::nullopt;
      return std::pair(a.symbols[0], Dim(b.factor / a.factor));
    }
    if (a.factor != b.factor || !rank_.contains(b.symbols[0])) return std::nullopt;
    std::string kept = a.symbols[0], tied = b.symbols[0];
    if (rank_.at(tied) < rank_.at(kept)) std::swap(kept, tied);
    return std::pair(tied, Dim::symbol(kept));
  }

  // The symbol that two sizes determine that have to be the same, and its value.
  std::optional<std::pair<std::string, Dim>> solve(const Dim& a, const Dim& b) const {
    const auto difference = (a - b).summands();
    if (!difference || difference->size() != 2) return std::nullopt;
    Product left{(*difference)[0].symbols, (*difference)[0].factor},
        right{(*difference)[1].symbols, -(*difference)[1].factor};
    if (left.factor < 0) {
      left.factor = -left.factor;
      right.factor = -right.factor;
    }
    return right.factor > 0 ? solve(std::move(left), std::move(right)) : std::nullopt;
  }

 private:
  std::map<std::string, size_t> rank_;
};

struct Solution {
  std::string symbol;
  Dim value;
  std::string reason;
};

std::optional<Solution> solve_reshape(const Node& n, const Inference& inference, const Equations& equations) {
  const auto target = written_target(n, inference);
  const auto from = target ? product_of(*n.input(0)->tensor_type().shape) : std::nullopt;
  const auto to = from ? product_of(*target) : std::nullopt;
  const auto solved = to ? equations.solve(*from, *to) : std::nullopt;
  if (!solved) return std::nullopt;
  return Solution{solved->first, solved->second,
                  fmt::format("reshapes {} to {}", to_string(*n.input(0)->tensor_type().shape), to_string(*target))};
}

// Whether a size is a multiple of a number above 1, which can't be 1 that is broadcast.
bool is_multiple(const Dim& d) {
  const auto summands = d.summands();
  return summands && summands->size() == 1 && summands->front().factor > 1;
}

// The inner sizes of a product, and numbers of matrices that can't be broadcast.
std::optional<std::pair<std::string, Dim>> equal_sizes(const Dims& a, const Dims& b, const Equations& equations) {
  auto solved = equations.solve(a.back(), b.size() == 1 ? b.back() : b[b.size() - 2]);
  for (size_t i = 3; !solved && i <= std::min(a.size(), b.size()); ++i) {
    const Dim &left = a[a.size() - i], &right = b[b.size() - i];
    if (is_multiple(left) && is_multiple(right)) solved = equations.solve(left, right);
  }
  return solved;
}

std::optional<Solution> solve_product(const Node& n, const Equations& equations) {
  const auto &a = n.input(0)->tensor_type().shape, &b = n.input(1)->tensor_type().shape;
  if (!a || !b) return std::nullopt;
  const auto solved = equal_sizes(*a, *b, equations);
  if (!solved) return std::nullopt;
  return Solution{solved->first, solved->second, fmt::format("multiplies {} by {}", to_string(*a), to_string(*b))};
}

// Sizes along the axes that are not joined.
std::optional<Solution> solve_concat(const Node& n, const Equations& equations) {
  const auto& first = n.input(0)->tensor_type().shape;
  const int64_t axis = from_front(n.attr_int("axis", 0), first ? static_cast<int64_t>(first->size()) : 0);
  for (size_t i = 1; first && i < n.inputs().size(); ++i) {
    const auto& other = n.input(i)->tensor_type().shape;
    for (size_t d = 0; other && other->size() == first->size() && d < first->size(); ++d) {
      const auto solved = static_cast<int64_t>(d) == axis ? std::nullopt : equations.solve((*first)[d], (*other)[d]);
      if (solved)
        return Solution{solved->first, solved->second,
                        fmt::format("joins {} and {}", to_string(*first), to_string(*other))};
    }
  }
  return std::nullopt;
}

std::optional<Solution> solve_node(const Node& n, const Inference& inference, const Equations& equations) {
  if (n.is("Reshape")) return solve_reshape(n, inference, equations);
  if (n.is("MatMul")) return solve_product(n, equations);
  return n.is("Concat") ? solve_concat(n, equations) : std::nullopt;
}

void substitute(Graph& graph, const Bindings& bindings) {
  const auto apply = [&](Value& v) {
    ValueType type = v.type();
    if (!type.tensor.shape) return;
    for (Dim& d : *type.tensor.shape)
      if (d.known() && !d.constant()) d = d.substitute(bindings);
    v.set_type(std::move(type));
  };
  for (Value* v : graph.inputs()) apply(*v);
  for (Node* n : graph.topological_order())
    for (size_t i = 0; i < n->output_count(); ++i)
      if (n->output(i)) apply(*n->output(i));
}

}  // namespace

size_t tie_sizes(PassContext& context) {
  Graph& graph = *context.model.graph;
  size_t changes = 0;
  for (bool changed = true; changed;) {
    changed = false;
    const Inference inference(context.model);
    const Equations equations(graph);
    for (const Node* n : graph.topological_order()) {
      const auto solved = context.may_rewrite() ? solve_node(*n, inference, equations) : std::nullopt;
      if (!solved) continue;
      if (!solved->symbol.starts_with('?'))  // a name that no file has
        context.report.notes.push_back(fmt::format("size '{}' of inputs is always {}: {} {}", solved->symbol,
                                                   solved->value.to_string(), n->label(), solved->reason));
      context.report.rewrites.push_back(
          {"tie_sizes", n->label(), solved->symbol, {fmt::format("is {}", solved->value.to_string())}});
      substitute(graph, Bindings{{solved->symbol, solved->value}});
      changed = true;
      ++changes;
      break;
    }
  }
  return changes;
}

}  // namespace attune
