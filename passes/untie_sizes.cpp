// Sizes that exporters gave one name although the graph works with different ones: a mask over sound (B, S), beside
// states (B, T, D) of which there are fewer. Where nothing that the graph computes needs the mask to be as long as the
// states, its size gets a name of its own.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>

#include "ops/infer/infer.h"
#include "passes/node_facts.h"
#include "passes/passes.h"

namespace attune {
namespace {

bool differ(const Dim& a, const Dim& b) { return !(a == b); }

// Axes, from the last on, along which two shapes aren't the same. (Those broadcast by a 1 are so under any name.)
size_t differences(const std::optional<Dims>& a, const std::optional<Dims>& b) {
  size_t count = 0;
  if (!a || !b) return 0;
  for (size_t i = 1; i <= std::min(a->size(), b->size()); ++i)
    count += differ((*a)[a->size() - i], (*b)[b->size() - i]) ? 1 : 0;
  return count;
}

// Whether a Reshape is one by sizes: as many elements in as out.
bool keeps_count(const std::optional<Dims>& from, const std::optional<Dims>& to) {
  Dim before = 1, after = 1;
  if (!from || !to) return true;
  for (const Dim& d : *from) before = before * d;
  for (const Dim& d : *to) after = after * d;
  return before == after;
}

// Whether inputs of the node have both sizes.
bool reads_both(const Node& n, const std::string& a, const std::string& b) {
  bool first = false, second = false;
  for (const Value* v : n.inputs()) {
    if (!v || !v->tensor_type().shape) continue;
    for (const Dim& d : *v->tensor_type().shape) {
      first = first || d.symbols().contains(a);
      second = second || d.symbols().contains(b);
    }
  }
  return first && second;
}

// How often each node combines sizes that are not known to be the same.
std::vector<size_t> contradictions(Graph& graph, const Model& model, const std::string& apart,
                                   const std::string& symbol) {
  constexpr std::array kBroadcasting = {"Add",   "Sub",  "Mul",     "Div",         "Where",          "And", "Or",
                                        "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Max", "Min"};
  const Inference inference(graph, model.opset_imports);
  std::vector<size_t> counts;
  graph.for_each_node([&](const Node& n) {
    size_t& count = counts.emplace_back(0);
    const auto shape = [&](size_t i) { return n.input(i)->tensor_type().shape; };
    if (n.is("Expand")) {
      count += differences(shape(0), inference.integers(n.input(1)));
    } else if (n.is("Reshape")) {
      // The target as it is computed; inference takes sizes from the input where it can.
      auto to = n.input(1) ? inference.integers(n.input(1)) : std::nullopt;
      if (!to || std::any_of(to->begin(), to->end(), [](const Dim& d) { return !d.known() || d.is(0) || d.is(-1); }))
        to = n.output()->tensor_type().shape;
      count += keeps_count(shape(0), to) ? 0 : 1;
    } else if (n.is("MatMul")) {
      const auto a = shape(0), b = shape(1);
      if (a && b && a->size() > 1 && b->size() > 1) count += differ(a->back(), (*b)[b->size() - 2]) ? 1 : 0;
    } else if (n.is("Concat") || n.type().find("Attention") != std::string::npos) {
      count += apart != symbol && reads_both(n, apart, symbol) ? 1 : 0;
    } else if (is_one_of(n, kBroadcasting)) {
      for (size_t i = 1; i < n.inputs().size(); ++i) count += differences(shape(0), shape(i));
    }
  });
  return counts;
}

std::vector<size_t> contradictions(const Model& model, const Value& renamed, const ValueType& type,
                                   const std::string& symbol) {
  std::unordered_map<const Value*, Value*> copies;
  const auto graph = model.graph->clone(&copies);
  copies.at(&renamed)->set_type(type);
  return contradictions(*graph, model, type.tensor.dim(1).as_symbol(), symbol);
}

// A float input with `symbol` among its sizes; null if there is none.
const Value* states_of(const Graph& graph, const std::string& symbol) {
  for (const Value* v : graph.inputs())
    if (is_float(v->element_type()) && v->tensor_type().shape)
      for (const Dim& d : *v->tensor_type().shape)
        if (d.as_symbol() == symbol) return v;
  return nullptr;
}

}  // namespace

size_t untie_sizes(PassContext& context) {
  Graph& graph = *context.model.graph;
  size_t changes = 0;
  for (Value* mask : graph.inputs()) {
    if (is_float(mask->element_type()) || mask->tensor_type().rank() != 2) continue;
    const std::string symbol = mask->tensor_type().dim(1).as_symbol();
    if (!context.may_rewrite()) break;
    const Value* states = symbol.empty() ? nullptr : states_of(graph, symbol);
    if (!states) continue;
    ValueType apart = mask->type();
    (*apart.tensor.shape)[1] = Dim::symbol(fmt::format("{}_{}", mask->name(), symbol));
    // Of a node that combines other sizes anyway nothing follows.
    const auto before = contradictions(context.model, *mask, mask->type(), symbol);
    const auto after = contradictions(context.model, *mask, apart, symbol);
    if (!std::equal(after.begin(), after.end(), before.begin(), std::less_equal<>())) continue;
    mask->set_type(apart);
    context.report.rewrites.push_back({"untie_sizes", fmt::format("input '{}'", mask->name()), symbol, {}});
    context.report.notes.push_back(
        fmt::format("input '{}' may be longer than '{}', though both are of '{}': the graph works with both sizes",
                    mask->name(), states->name(), symbol));
    ++changes;
  }
  return changes;
}

}  // namespace attune
