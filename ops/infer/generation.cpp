// Operators that make tensors from shapes, attributes or numbers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "graph/constant_node.h"
#include "ops/infer/contents.h"
#include "ops/infer/node_inference.h"

namespace attune {
namespace {

void set_integers(NodeInference& n, std::vector<int64_t> shape, Dims values) {
  n.set(0, DataType::kInt64, to_dims(shape));
  if (values.size() <= SymbolicTensor::kMaxElements)
    n.set_contents(0, {DataType::kInt64, std::move(shape), std::move(values), {}});
}

void infer_shape(NodeInference& n) {
  const auto& shape = n.shape(0);
  if (!shape) return n.set(0, DataType::kInt64, Dims{Dim()});
  const auto rank = static_cast<int64_t>(shape->size());
  const auto clamp = [&](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + rank : i, 0, rank); };
  const int64_t begin = clamp(n.node().attr_int("start", 0)), end = clamp(n.node().attr_int("end", rank));
  Dims values;
  for (int64_t i = begin; i < end; ++i) values.push_back((*shape)[static_cast<size_t>(i)]);
  const auto count = static_cast<int64_t>(values.size());
  set_integers(n, {count}, std::move(values));
}

void infer_size(NodeInference& n) {
  if (!n.shape(0)) return n.set(0, DataType::kInt64, Dims{});
  Dim product(1);
  for (const Dim& d : *n.shape(0)) product = product * d;
  set_integers(n, {}, {product});
}

void infer_constant(NodeInference& n) {
  const auto value = constant_node_value(n.node());
  if (!value) return;
  n.set(0, value->type(), to_dims(value->shape().span()));
  if (auto contents = contents_of(*value)) n.set_contents(0, std::move(*contents));
}

// A shape given as a tensor of sizes: the sizes if they are known, else as many unknown ones as its length says.
std::optional<Dims> shape_from(NodeInference& n, size_t input) {
  const auto elements = n.elements(input);
  if (!elements || !elements->is_integer()) return std::nullopt;
  for (const Dim& d : elements->integers)
    if (const auto c = d.constant(); c && *c < 0) n.fail(fmt::format("input {}: a size of {}", input, *c));
  return elements->integers;
}

void infer_constant_of_shape(NodeInference& n) {
  const Tensor* value = n.node().find<Tensor>("value");
  const DataType type = value ? value->type() : DataType::kFloat;
  const auto shape = shape_from(n, 0);
  n.set(0, type, shape);
  auto out = unknown_contents(type, shape);
  if (!out) return;
  const auto element = value ? contents_of(*value) : SymbolicTensor{type, {}, {}, {0.0}};
  if (!element || element->size() != 1) return;
  for (Dim& d : out->integers) d = element->integers.at(0);
  for (auto& r : out->reals) r = element->reals.at(0);
  n.set_contents(0, std::move(*out));
}

// ceil((limit - start) / delta), at least 0; so many steps from start on.
void infer_range(NodeInference& n) {
  const DataType type = n.element(0);
  const auto start = n.elements(0), limit = n.elements(1), delta = n.elements(2);
  n.set(0, type, Dims{Dim()});
  if (!start || !limit || !delta || start->size() != 1 || limit->size() != 1 || delta->size() != 1) return;
  if (start->is_integer() != limit->is_integer() || start->is_integer() != delta->is_integer())
    n.fail("start, limit and delta have different element types");
  if (start->is_integer()) {
    const Dim a = start->integers[0], b = limit->integers[0], step = delta->integers[0];
    if (step.is(0)) n.fail("a delta of 0");
    if (!step.constant()) return;
    const Dim count = Dim::maximum(Dim::ceil_divide(b - a, step), 0);
    auto out = unknown_contents(type, Dims{count});
    n.set(0, type, Dims{count});
    if (!out) return;
    for (size_t i = 0; i < out->size(); ++i) out->integers[i] = fit_to(type, a + step * Dim(static_cast<int64_t>(i)));
    return n.set_contents(0, std::move(*out));
  }
  if (!start->reals[0] || !limit->reals[0] || !delta->reals[0]) return;
  const double count = std::ceil((*limit->reals[0] - *start->reals[0]) / *delta->reals[0]);
  if (std::isfinite(count) && count < 9e15) n.set(0, type, Dims{Dim(static_cast<int64_t>(std::max(count, 0.0)))});
}

}  // namespace

InferRules generation_rules() {
  return {
      {"", "Shape", 1, infer_shape},       {"", "Size", 1, infer_size},
      {"", "Constant", 0, infer_constant}, {"", "ConstantOfShape", 1, infer_constant_of_shape},
      {"", "Range", 3, infer_range},
  };
}

}  // namespace attune
