#include "ops/infer/node_inference.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "ops/infer/contents.h"
#include "ops/infer/graph_inference.h"

namespace attune {

NodeInference::NodeInference(Inference& inference, Node& node)
    : inference_(inference), node_(node), outputs_(node.output_count()) {}

int64_t NodeInference::opset() const {
  const auto it = inference_.opsets_.find(node_.domain());
  return it == inference_.opsets_.end() ? std::numeric_limits<int>::max() : it->second;
}

const ValueType& NodeInference::type(size_t input) const {
  static const ValueType kNone;
  Value* value = node_.input(input);
  if (!value) return kNone;
  GraphInference(inference_).resolve(*value);
  return value->type();
}

const SymbolicTensor* NodeInference::contents(size_t input) const {
  Value* value = node_.input(input);
  if (!value) return nullptr;
  GraphInference(inference_).resolve(*value);
  return inference_.contents(value);
}

std::optional<SymbolicTensor> NodeInference::elements(size_t input) const {
  if (const SymbolicTensor* known = contents(input)) return *known;
  return unknown_contents(element(input), shape(input));
}

std::optional<std::vector<int64_t>> NodeInference::constant_integers(size_t input) const {
  const SymbolicTensor* known = contents(input);
  return known && known->is_integer() ? to_sizes(known->integers) : std::nullopt;
}

std::optional<int64_t> NodeInference::constant_integer(size_t input) const {
  const auto all = constant_integers(input);
  return all && all->size() == 1 ? std::optional(all->front()) : std::nullopt;
}

void NodeInference::expect_rank(size_t input, int wanted) const {
  const int found = rank(input);
  if (found >= 0 && found != wanted) fail(fmt::format("input {}: expected rank {}, got rank {}", input, wanted, found));
}

void NodeInference::set(size_t output, DataType element, std::optional<Dims> shape) {
  set_type(output, ValueType::of(element, std::move(shape)));
}

void NodeInference::set_type(size_t output, ValueType type) {
  if (output < outputs_.size()) outputs_[output].type = std::move(type);
}

void NodeInference::set_contents(size_t output, SymbolicTensor contents) {
  if (output < outputs_.size()) outputs_[output].contents = std::move(contents);
}

Dim NodeInference::unify(const Dim& a, const Dim& b, std::string_view what) {
  relate(a, b);
  const auto both = GraphInference(inference_).unify(a, b);
  if (!both) fail(fmt::format("{} must agree: {} and {}", what, a.to_string(), b.to_string()));
  return *both;
}

void NodeInference::relate(const Dim& a, const Dim& b, bool strict) {
  const bool known = a == b || !a.known() || !b.known() || (a.constant() && b.constant());
  if (!known) inference_.relations_.push_back({a, b, strict && inference_.conditions_ == 0});
}

void NodeInference::relate_shape(size_t input, const Dims& dims, bool strict) {
  const auto& shape = this->shape(input);
  if (!shape || shape->size() != dims.size()) return;
  const Dims sizes = *shape;
  for (size_t i = 0; i < dims.size(); ++i) relate(sizes[i], dims[i], strict);
}

Dim NodeInference::part(const Dim& size, const Dim& parts) {
  const Dim quotient = Dim::floor_divide(size, parts);
  if (size.known() && parts.known() && !(quotient * parts == size))
    relate(size, parts * Dim::symbol(fmt::format("({})/({})", size.to_string(), parts.to_string())));
  return quotient;
}

void NodeInference::need_integers(size_t input, const Dim& low, const Dim& high) {
  const Value* value = node_.input(input);
  if (!value || !low.known() || !high.known()) return;
  inference_.needed_integers_.insert_or_assign(value, IntegerRange{low, high});
  const SymbolicTensor* known = contents(input);
  if (known && known->size() == 1 && known->is_integer() && low == high) relate(known->integers[0], high);
}

Dim NodeInference::broadcast(const Dim& a, const Dim& b) {
  if (a == b || b.is(1)) return a;
  if (a.is(1)) return b;
  relate(a, b, false);
  const auto x = a.constant(), y = b.constant();
  if (x && y) fail(fmt::format("sizes {} and {} don't broadcast", *x, *y));
  // What isn't 1 is the result (the other is 1 or the same).
  if (a.at_least(2) || a.is(0) || b.clips(a)) return a;
  if (b.at_least(2) || b.is(0) || a.clips(b)) return b;
  return {};
}

Dims NodeInference::broadcast(const Dims& a, const Dims& b) {
  const Dims& longer = a.size() >= b.size() ? a : b;
  const Dims& shorter = a.size() >= b.size() ? b : a;
  Dims out = longer;
  const size_t offset = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) out[offset + i] = broadcast(longer[offset + i], shorter[i]);
  return out;
}

Dim NodeInference::fresh() { return GraphInference(inference_).fresh(); }

int64_t NodeInference::enter_scope() {
  ++inference_.conditions_;
  return std::exchange(inference_.scope_, inference_.fresh_);
}

void NodeInference::leave_scope(int64_t outer) {
  --inference_.conditions_;
  inference_.scope_ = outer;
}

size_t NodeInference::axis(int64_t axis, size_t rank) const {
  const auto r = static_cast<int64_t>(rank);
  if (axis < -r || axis >= r) fail(fmt::format("axis {} is outside [-{}, {})", axis, rank, rank));
  return static_cast<size_t>(axis < 0 ? axis + r : axis);
}

void NodeInference::fail(std::string message) const { throw Error(Error::Kind::kInvalidModel, std::move(message)); }

const InferRule* find_infer_rule(std::string_view domain, std::string_view type) {
  static const auto table = [] {
    std::map<std::pair<std::string_view, std::string_view>, InferRule> out;
    for (auto family :
         {attention_rules, control_flow_rules, elementwise_rules, generation_rules, linear_algebra_rules,
          movement_rules, normalization_rules, recurrent_rules, reduction_rules, reshape_rules, sequence_rules})
      for (InferRule& rule : family()) out.emplace(std::pair(rule.domain, rule.type), std::move(rule));
    return out;
  }();
  const auto it = table.find({domain, type});
  return it == table.end() ? nullptr : &it->second;
}

}  // namespace attune
