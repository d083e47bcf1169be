#include "ops/infer/symbols.h"

#include <fmt/format.h>

#include <set>

namespace attune {
namespace {

// The smallest symbol >= 0 for which `dim` is `size`, if it doesn't fall as the symbol grows.
std::optional<int64_t> solve(const Dim& dim, const std::string& symbol, int64_t size, SymbolSizes sizes) {
  const auto at = [&](int64_t value) {
    sizes[symbol] = value;
    return dim.evaluate(sizes);
  };
  constexpr int64_t kMost = int64_t{1} << 40;
  int64_t low = 0, high = 1;
  while (high < kMost) {
    const auto value = at(high);
    if (!value || *value >= size) break;
    high *= 2;
  }
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    const auto value = at(middle);
    if (!value) return std::nullopt;
    if (*value < size) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return at(low) == size ? std::optional(low) : std::nullopt;
}

// The only symbol that has no size yet; empty if there are none or more.
std::string open_symbol(const Dim& dim, const SymbolSizes& sizes) {
  std::string open;
  for (const std::string& s : dim.symbols()) {
    if (sizes.contains(s)) continue;
    if (!open.empty()) return {};
    open = s;
  }
  return open;
}

[[noreturn]] void contradicts(const Value& input, const Shape& shape) {
  throw Error(Error::Kind::kInvalidArgument, fmt::format("input '{}': {} expected, got {}", input.name(),
                                                         input.type().to_string(), shape.to_string()));
}

}  // namespace

std::vector<std::string> input_symbols(const Model& model) {
  std::set<std::string> out;
  for (const Value* input : model.graph->inputs()) {
    if (!input->tensor_type().shape) continue;
    for (const Dim& d : *input->tensor_type().shape) out.merge(d.symbols());
  }
  return {out.begin(), out.end()};
}

std::optional<Shape> shape_for(const TensorType& type, const SymbolSizes& sizes) {
  if (!type.shape || type.shape->size() > Shape::kMaxRank) return std::nullopt;
  Shape out;
  for (const Dim& d : *type.shape) {
    const auto size = d.evaluate(sizes);
    if (!size || *size < 0) return std::nullopt;
    out.push_back(*size);
  }
  return out;
}

SymbolSizes solve_symbols(const Graph& graph, const std::map<std::string, Shape, std::less<>>& shapes) {
  SymbolSizes sizes;
  const auto for_each_size = [&](const auto& f) {
    for (const Value* input : graph.inputs()) {
      const auto it = shapes.find(input->name());
      const auto& dims = input->tensor_type().shape;
      if (it == shapes.end() || !dims) continue;
      if (dims->size() != it->second.size()) contradicts(*input, it->second);
      for (size_t i = 0; i < dims->size(); ++i) f(*input, (*dims)[i], i, it->second);
    }
  };
  // Each round solves at least one symbol. Symbols that stand alone come first: quotients have several solutions.
  for (const bool alone : {true, false}) {
    for (size_t solved = 0, before = 1; solved != before;) {
      before = solved;
      for_each_size([&](const Value& input, const Dim& dim, size_t axis, const Shape& shape) {
        const std::string symbol = open_symbol(dim, sizes);
        if (symbol.empty() || (alone && dim.as_symbol().empty())) return;
        const auto value = solve(dim, symbol, shape[axis], sizes);
        if (!value) contradicts(input, shape);
        sizes[symbol] = *value;
        ++solved;
      });
    }
  }
  for_each_size([&](const Value& input, const Dim& dim, size_t axis, const Shape& shape) {
    const auto value = dim.evaluate(sizes);
    if (value && *value != shape[axis]) contradicts(input, shape);
  });
  return sizes;
}

}  // namespace attune
