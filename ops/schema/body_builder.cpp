#include "ops/schema/body_builder.h"

#include <limits>

namespace attune {

Node* BodyBuilder::node(std::string type, std::vector<Value*> inputs, size_t outputs, Attributes attributes) {
  while (!inputs.empty() && !inputs.back()) inputs.pop_back();
  return graph_.add_node("", std::move(type), std::move(inputs), outputs, std::move(attributes));
}

Value* BodyBuilder::op(std::string type, std::vector<Value*> inputs, Attributes attributes) {
  return node(std::move(type), std::move(inputs), 1, std::move(attributes))->output();
}

Value* BodyBuilder::tensor(Tensor value) { return op("Constant", {}, {{"value", std::move(value)}}); }

Value* BodyBuilder::ints(std::vector<int64_t> values) {
  return tensor(Tensor::from<int64_t>({static_cast<int64_t>(values.size())}, std::span<const int64_t>(values)));
}

Value* BodyBuilder::integer(int64_t value) { return tensor(Tensor::scalar(value)); }

Value* BodyBuilder::number(double value, DataType type) {
  switch (type) {
    case DataType::kDouble:
      return tensor(Tensor::scalar(value));
    case DataType::kFloat16:
      return tensor(Tensor::scalar(Float16(static_cast<float>(value))));
    case DataType::kBFloat16:
      return tensor(Tensor::scalar(BFloat16(static_cast<float>(value))));
    default:
      return tensor(Tensor::scalar(static_cast<float>(value)));
  }
}

Value* BodyBuilder::cast(Value* x, DataType to) {
  if (x->element_type() == to) return x;
  Value* y = op("Cast", {x}, {{"to", static_cast<int64_t>(to)}});
  y->set_type(ValueType::of(to));
  return y;
}

Value* BodyBuilder::both(Value* a, Value* b) { return !a ? b : !b ? a : op("And", {a, b}); }

Value* BodyBuilder::transpose(Value* x, std::vector<int64_t> perm) {
  return op("Transpose", {x}, {{"perm", std::move(perm)}});
}

Value* BodyBuilder::concat(std::vector<Value*> values, int64_t axis) {
  return op("Concat", std::move(values), {{"axis", axis}});
}

Value* BodyBuilder::reduce_sum(Value* x, int64_t axis) {
  return op("ReduceSum", {x, ints({axis})}, {{"keepdims", int64_t{1}}});
}

Value* BodyBuilder::reduce_mean(Value* x, const std::vector<int64_t>& axes) {
  if (opset_ < 18) return op("ReduceMean", {x}, {{"keepdims", int64_t{1}}, {"axes", axes}});
  return op("ReduceMean", {x, ints(axes)}, {{"keepdims", int64_t{1}}});
}

Value* BodyBuilder::dim(Value* x, int64_t axis) {
  return op("Gather", {shape(x), integer(axis)}, {{"axis", int64_t{0}}});
}

Value* BodyBuilder::range(Value* count) { return op("Range", {integer(0), count, integer(1)}); }

double lowest_of(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return -65504;
    case DataType::kBFloat16:
      return -0x1.FEp127;
    case DataType::kDouble:
      return std::numeric_limits<double>::lowest();
    default:
      return static_cast<double>(std::numeric_limits<float>::lowest());
  }
}

DataType wide_type(DataType type) { return is_half(type) ? DataType::kFloat : type; }

}  // namespace attune
