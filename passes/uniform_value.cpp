#include "passes/uniform_value.h"

#include <algorithm>
#include <cmath>

#include "ops/infer/contents.h"

namespace attune {

double cast_number(double v, DataType to) {
  if (to == DataType::kBool) return v != 0 ? 1 : 0;
  return is_integer(to) ? std::trunc(v) : round_to(to, v);
}

bool has_few_numbers(const Tensor& t) {
  constexpr int64_t kMaxElements = 65536;
  return t.type() != DataType::kString && t.count() > 0 && t.count() <= kMaxElements;
}

std::optional<double> uniform_value(const Tensor& t) {
  if (!has_few_numbers(t)) return std::nullopt;
  const std::vector<double> values = t.to_contiguous().to_double();
  const bool same = std::all_of(values.begin(), values.end(), [&](double x) { return x == values[0]; });
  return same ? std::optional(values[0]) : std::nullopt;
}

std::optional<double> uniform_value(const Value* v, const Inference& inference) {
  if (const auto known = inference.scalar(v)) return known;
  const Node* n = v->producer();
  if (!n) return std::nullopt;
  if (n->is("ConstantOfShape")) {
    const Tensor* value = n->find<Tensor>("value");
    return value ? value->to_double().at(0) : 0.0;
  }
  if (n->is("Expand")) return uniform_value(n->input(0), inference);
  if (n->is("Mul")) {
    const auto a = uniform_value(n->input(0), inference), b = uniform_value(n->input(1), inference);
    return a && b && is_float(v->element_type()) ? std::optional(cast_number(*a * *b, v->element_type()))
                                                 : std::nullopt;
  }
  if (!n->is("Cast")) return std::nullopt;
  const auto x = uniform_value(n->input(0), inference);
  return x ? std::optional(cast_number(*x, static_cast<DataType>(n->attr_int("to", 0)))) : std::nullopt;
}

}  // namespace attune
