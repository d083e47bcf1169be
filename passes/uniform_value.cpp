#include "passes/uniform_value.h"

#include <cmath>

namespace attune {

double cast_number(double v, DataType to) {
  if (to == DataType::kBool) return v != 0 ? 1 : 0;
  if (is_integer(to)) return std::trunc(v);
  if (to == DataType::kFloat16) return static_cast<double>(static_cast<float>(Float16(static_cast<float>(v))));
  return to == DataType::kDouble ? v : static_cast<double>(static_cast<float>(v));
}

std::optional<double> uniform_value(const Value* v, const Inference& inference) {
  if (!v) return std::nullopt;
  if (const auto known = inference.scalar(v)) return known;
  const Node* n = v->producer();
  if (!n) return std::nullopt;
  if (n->is("ConstantOfShape")) {
    const Tensor* value = n->find<Tensor>("value");
    return value ? value->to_double().at(0) : 0.0;
  }
  if (n->is("Expand")) return uniform_value(n->input(0), inference);
  if (!n->is("Cast")) return std::nullopt;
  const auto x = uniform_value(n->input(0), inference);
  return x ? std::optional(cast_number(*x, static_cast<DataType>(n->attr_int("to", 0)))) : std::nullopt;
}

}  // namespace attune
