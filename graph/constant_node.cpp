#include "graph/constant_node.h"

namespace attune {
namespace {

template <class T>
Shape length_of(const std::vector<T>& list) {
  return Shape{static_cast<int64_t>(list.size())};
}

}  // namespace

std::optional<Tensor> constant_node_value(const Node& n) {
  if (const auto* t = n.find<Tensor>("value")) return *t;
  if (const auto* f = n.find<float>("value_float")) return Tensor::scalar(*f);
  if (const auto* i = n.find<int64_t>("value_int")) return Tensor::scalar(*i);
  if (const auto* s = n.find<std::string>("value_string")) return Tensor::from_strings({}, {*s});
  if (const auto* f = n.find<std::vector<float>>("value_floats")) return Tensor::from<float>(length_of(*f), *f);
  if (const auto* i = n.find<std::vector<int64_t>>("value_ints")) return Tensor::from<int64_t>(length_of(*i), *i);
  if (const auto* s = n.find<std::vector<std::string>>("value_strings")) return Tensor::from_strings(length_of(*s), *s);
  return std::nullopt;
}

void normalize_constant(Node& node) {
  if (!node.is("Constant") || node.find<Tensor>("value")) return;
  if (auto value = constant_node_value(node)) {
    node.attributes().clear();
    node.set("value", std::move(*value));
  }
}

}  // namespace attune
