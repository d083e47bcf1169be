// Sequences and optional values.
#include <fmt/format.h>

#include "ops/infer/contents.h"
#include "ops/infer/node_inference.h"

namespace attune {
namespace {

using Kind = ValueType::Kind;

ValueType element_of(const NodeInference& n, size_t input, Kind kind) {
  const ValueType& type = n.type(input);
  if (type.kind != Kind::kUnknown && type.kind != kind)
    n.fail(fmt::format("input {} is {}, not a {}", input, type.to_string(),
                       kind == Kind::kSequence ? "sequence" : "optional"));
  return type.kind == kind && type.element ? *type.element : ValueType();
}

// Elements of one sequence may have different shapes: what is common.
ValueType common_element(const ValueType& a, const ValueType& b) {
  if (a.kind == Kind::kUnknown) return b;
  if (b.kind != Kind::kTensor || a.kind != Kind::kTensor) return a;
  return ValueType::of(a.tensor.element, common_shape(a.tensor.shape, b.tensor.shape));
}

void infer_sequence_empty(NodeInference& n) {
  const auto type = static_cast<DataType>(n.node().attr_int("dtype", static_cast<int64_t>(DataType::kFloat)));
  n.set_type(0, ValueType::sequence(ValueType::of(type)));
}

void infer_sequence_construct(NodeInference& n) {
  ValueType element = n.type(0);
  for (size_t i = 1; i < n.input_count(); ++i) element = common_element(element, n.type(i));
  n.set_type(0, ValueType::sequence(std::move(element)));
}

void infer_sequence_insert(NodeInference& n) {
  n.set_type(0, ValueType::sequence(common_element(element_of(n, 0, Kind::kSequence), n.type(1))));
}

void infer_sequence_at(NodeInference& n) { n.set_type(0, element_of(n, 0, Kind::kSequence)); }

void infer_sequence_length(NodeInference& n) { n.set(0, DataType::kInt64, Dims{}); }

void infer_concat_from_sequence(NodeInference& n) {
  const TensorType element = element_of(n, 0, Kind::kSequence).tensor;
  if (!element.shape) return n.set(0, element.element);
  Dims shape = *element.shape;
  const bool adds = n.node().attr_int("new_axis", 0) != 0;
  const size_t axis = n.axis(n.node().attr_int("axis", 0), shape.size() + (adds ? 1 : 0));
  if (adds) {
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), Dim());
  } else {
    shape[axis] = Dim();
  }
  n.set(0, element.element, std::move(shape));
}

// Parts of equal size along the axis (the last may be smaller), or of given sizes.
void infer_split_to_sequence(NodeInference& n) {
  auto shape = n.shape(0);
  if (shape) {
    const size_t axis = n.axis(n.node().attr_int("axis", 0), shape->size());
    const bool single = !n.has(1);
    if (single && n.node().attr_int("keepdims", 1) == 0) {
      shape->erase(shape->begin() + static_cast<std::ptrdiff_t>(axis));
    } else {
      (*shape)[axis] = single ? Dim(1) : Dim();
    }
  }
  n.set_type(0, ValueType::sequence(ValueType::of(n.element(0), std::move(shape))));
}

void infer_optional(NodeInference& n) {
  if (n.has(0)) return n.set_type(0, ValueType::optional(n.type(0)));
  const ValueType* declared = n.node().find<ValueType>("type");
  n.set_type(0, ValueType::optional(declared ? *declared : ValueType()));
}

// From opset 18 on the input may be no optional.
void infer_optional_get_element(NodeInference& n) {
  n.set_type(0, n.type(0).kind == Kind::kOptional ? element_of(n, 0, Kind::kOptional) : n.type(0));
}

void infer_optional_has_element(NodeInference& n) { n.set(0, DataType::kBool, Dims{}); }

}  // namespace

InferRules sequence_rules() {
  return {
      {"", "SequenceEmpty", 0, infer_sequence_empty},
      {"", "SequenceConstruct", 1, infer_sequence_construct},
      {"", "SequenceInsert", 2, infer_sequence_insert},
      {"", "SequenceErase", 1, [](NodeInference& n) { n.set_type(0, n.type(0)); }},
      {"", "SequenceAt", 2, infer_sequence_at},
      {"", "SequenceLength", 1, infer_sequence_length},
      {"", "ConcatFromSequence", 1, infer_concat_from_sequence},
      {"", "SplitToSequence", 1, infer_split_to_sequence},
      {"", "Optional", 0, infer_optional},
      {"", "OptionalGetElement", 1, infer_optional_get_element},
      {"", "OptionalHasElement", 0, infer_optional_has_element},
  };
}

}  // namespace attune
