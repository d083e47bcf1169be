#include "runtime/index_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "graph/error.h"

namespace attune {
namespace {

bool is_index(DataType type) { return type == DataType::kInt64 || type == DataType::kInt32; }

// Gives the same integers in the same order. Models that weren't converted may not say what types are within.
bool keeps_elements(const Node& node) {
  constexpr std::array<std::string_view, 5> kTypes = {"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"};
  if (node.is("Cast")) return is_index(static_cast<DataType>(node.attr_int("to", 0)));
  return node.domain().empty() && std::find(kTypes.begin(), kTypes.end(), node.type()) != kTypes.end();
}

// The constant that `table` holds the rows of, stored in another type perhaps; null if it is computed.
const Tensor* stored_table(const Value* table) {
  while (
      table && table->producer() &&
      (table->producer()->is("Cast") || table->producer()->is("DequantizeLinear") || table->producer()->is("Identity")))
    table = table->producer()->input(0);
  return table && table->constant() && table->constant()->rank() > 0 ? table->constant() : nullptr;
}

// The smallest table that the elements of `input` choose from.
std::optional<IndexLimit> find_limit(const Graph& graph, size_t position, const Value& input) {
  std::optional<IndexLimit> limit;
  std::vector<const Value*> same{&input};  // values of the same elements
  for (size_t i = 0; i < same.size(); ++i)
    for (const Use& use : same[i]->uses()) {
      const Node& node = *use.node;
      if (node.graph() != &graph || !node.output()) continue;  // a branch may never run
      if (node.output()->uses().empty() && !node.output()->is_graph_output()) continue;
      if (use.index == 0 && keeps_elements(node)) same.push_back(node.output());
      if (use.index != 1 || !node.is("Gather") || node.attr_int("axis", 0) != 0) continue;
      const Tensor* table = stored_table(node.input(0));
      if (table && (!limit || table->dim(0) < limit->size)) limit = {position, table->dim(0), node.label()};
    }
  return limit;
}

// The first element outside of [-size, size), and its place; nothing if there is none. In every step of a decoder: it
// allocates nothing.
template <class T>
std::optional<std::pair<int64_t, int64_t>> first_outside(const Tensor& t, int64_t size) {
  const T *begin = t.data<T>(), *end = begin + t.count();
  const T* at = std::find_if(begin, end, [&](T v) { return v < -size || v >= size; });
  return at == end ? std::nullopt : std::optional(std::pair<int64_t, int64_t>(*at, at - begin));
}

}  // namespace

std::vector<IndexLimit> index_limits(const Graph& graph) {
  std::vector<IndexLimit> limits;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const Value& input = *graph.inputs()[i];
    if (!is_index(input.element_type())) continue;
    if (auto limit = find_limit(graph, i, input)) limits.push_back(std::move(*limit));
  }
  return limits;
}

void check_indices(const IndexLimit& limit, const std::string& name, const Tensor& indices) {
  const Tensor dense = indices.to_contiguous();
  const auto outside = dense.type() == DataType::kInt32 ? first_outside<int32_t>(dense, limit.size)
                                                        : first_outside<int64_t>(dense, limit.size);
  if (!outside) return;
  auto [index, rest] = *outside;
  std::vector<int64_t> place;
  for (size_t axis = indices.rank(); axis-- > 0; rest /= indices.dim(axis))
    place.insert(place.begin(), rest % indices.dim(axis));
  throw Error(Error::Kind::kInvalidArgument,
              fmt::format("input '{}': expected indices below {}, the rows of the table of {}, got {} at ({})", name,
                          limit.size, limit.node, index, fmt::join(place, ",")));
}

}  // namespace attune
