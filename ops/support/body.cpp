#include "ops/support/body.h"

#include <fmt/format.h>

namespace attune {

const Graph& body_of(const Node& node, std::string_view name) {
  const auto* body = node.find<std::shared_ptr<Graph>>(name);
  if (!body || !*body)
    throw Error(Error::Kind::kInvalidModel, fmt::format("attribute '{}': a graph is required", name));
  return **body;
}

Tensor empty_scan_output(const TensorType& element, size_t axis) {
  Shape shape;
  for (int i = 0; i < std::max(element.rank(), 0); ++i) shape.push_back(element.dim(i).constant().value_or(0));
  shape.insert(std::min(axis, shape.rank()), 0);
  const DataType type = element.element == DataType::kUndefined ? DataType::kFloat : element.element;
  return Tensor::allocate(type, shape);
}

}  // namespace attune
