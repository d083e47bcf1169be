#include "passes/pattern/rule.h"

namespace attune::pattern {

Builder::~Builder() {
  if (committed_) return;
  for (auto it = nodes_.rbegin(); it != nodes_.rend(); ++it) graph_.erase(*it);
  for (Value* constant : constants_) graph_.erase_constant(constant);
}

Node* Builder::node(std::string domain, std::string type, std::vector<Value*> inputs, size_t outputs,
                    Attributes attributes) {
  while (!inputs.empty() && !inputs.back()) inputs.pop_back();
  Node* n = graph_.insert_node(before_, std::move(domain), std::move(type), std::move(inputs), outputs,
                               std::move(attributes));
  nodes_.push_back(n);
  inference_.update(n);
  return n;
}

Value* Builder::op(std::string type, std::vector<Value*> inputs, Attributes attributes, std::string domain) {
  return node(std::move(domain), std::move(type), std::move(inputs), 1, std::move(attributes))->output();
}

Value* Builder::constant(Tensor tensor) {
  constants_.push_back(graph_.add_constant(std::move(tensor)));
  return constants_.back();
}

Value* Builder::integers(std::vector<int64_t> values) {
  return constant(Tensor::from<int64_t>({static_cast<int64_t>(values.size())}, std::span<const int64_t>(values)));
}

Value* Builder::scalar(double value, DataType type) {
  switch (type) {
    case DataType::kFloat:
      return constant(Tensor::scalar(static_cast<float>(value)));
    case DataType::kDouble:
      return constant(Tensor::scalar(value));
    case DataType::kFloat16:
      return constant(Tensor::scalar(Float16(static_cast<float>(value))));
    case DataType::kBFloat16:
      return constant(Tensor::scalar(BFloat16(static_cast<float>(value))));
    default:
      throw Error(Error::Kind::kInternal, "a scalar of type " + std::string(name(type)));
  }
}

namespace {
constexpr int64_t kAxesAreInputs = 13;  // Squeeze and Unsqueeze, from this opset on
}

Value* Builder::unsqueeze(Value* x, std::vector<int64_t> axes) {
  if (opset_ >= kAxesAreInputs) return op("Unsqueeze", {x, integers(std::move(axes))});
  return op("Unsqueeze", {x}, {{"axes", std::move(axes)}});
}

Value* Builder::squeeze(Value* x, std::vector<int64_t> axes) {
  if (opset_ >= kAxesAreInputs) return op("Squeeze", {x, integers(std::move(axes))});
  return op("Squeeze", {x}, {{"axes", std::move(axes)}});
}

Value* Builder::transpose(Value* x, std::vector<int64_t> perm) {
  return op("Transpose", {x}, {{"perm", std::move(perm)}});
}

Value* Builder::reshape(Value* x, std::vector<int64_t> shape) { return op("Reshape", {x, integers(std::move(shape))}); }

}  // namespace attune::pattern
