#include "passes/pattern/pattern.h"

#include <fmt/format.h>

namespace attune::pattern {
namespace {

Pat leaf(Kind kind, std::string name) {
  auto node = std::make_shared<PatNode>();
  node->kind = kind;
  node->name = std::move(name);
  return node;
}

// What ONNX assumes for an `axis` that is left out. Softmax and LogSoftmax of old opsets have theirs written out
// (normalize_forms).
int64_t default_axis(std::string_view type) { return type == "Split" ? 0 : -1; }

}  // namespace

std::string PatNode::label() const {
  if (kind == Kind::kOp) return domain.empty() ? type : domain + "." + type;
  if (kind == Kind::kConstant) return fmt::format("constant {}", value);
  if (kind == Kind::kScalar) return "scalar '" + name + "'";
  return name.empty() ? "value" : "'" + name + "'";
}

Pat any(std::string name) { return leaf(Kind::kAny, std::move(name)); }
Pat scalar(std::string name) { return leaf(Kind::kScalar, std::move(name)); }

Pat constant(double value, double tolerance) {
  auto node = std::make_shared<PatNode>();
  node->kind = Kind::kConstant;
  node->value = value;
  node->tolerance = tolerance;
  return node;
}

Pat where(const Pat& pat, std::string expectation, Predicate predicate) {
  auto node = std::make_shared<PatNode>(*pat);
  node->expectation = std::move(expectation);
  node->predicate = std::move(predicate);
  return node;
}

Pat of_rank(int rank, const Pat& pat) {
  return where(pat, fmt::format("rank {}", rank),
               [rank](const Value& v, const Inference&) { return v.tensor_type().rank() == rank; });
}

Pat one_of(std::string name, std::vector<Pat> alternatives) {
  auto node = std::make_shared<PatNode>();
  node->kind = Kind::kOneOf;
  node->name = std::move(name);
  node->inputs = std::move(alternatives);
  return node;
}

Op::Op(std::string type, std::string name) {
  node_.kind = Kind::kOp;
  node_.type = std::move(type);
  node_.name = std::move(name);
}

Op&& Op::domain(std::string domain) && {
  node_.domain = std::move(domain);
  return std::move(*this);
}

Op&& Op::attr(std::string name, Attribute value) && {
  node_.attributes.push_back({std::move(name), std::move(value), false, false, {}});
  return std::move(*this);
}

Op&& Op::attr(std::string name, std::initializer_list<int64_t> value) && {
  return std::move(*this).attr(std::move(name), Attribute(std::vector<int64_t>(value)));
}

Op&& Op::attr_or(std::string name, Attribute value, Attribute fallback) && {
  node_.attributes.push_back({std::move(name), std::move(value), false, true, std::move(fallback)});
  return std::move(*this);
}

Op&& Op::axis(int64_t from_end) && {
  node_.attributes.push_back({"axis", from_end, true, true, default_axis(node_.type)});
  return std::move(*this);
}

Op&& Op::output(size_t i) && {
  node_.output = i;
  return std::move(*this);
}

Op&& Op::further_inputs() && {
  node_.further_inputs = true;
  return std::move(*this);
}

Op&& Op::shared() && {
  node_.outside = OutsideUse::kShared;
  return std::move(*this);
}

Op&& Op::replaced() && {
  node_.outside = OutsideUse::kReplaced;
  return std::move(*this);
}

Pat Op::apply(std::vector<Pat> operands) && {
  node_.inputs = std::move(operands);
  return std::make_shared<PatNode>(std::move(node_));
}

}  // namespace attune::pattern
