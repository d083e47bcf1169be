// What the inference rule of an operator works with: one node, what is known of its inputs, and what becomes known of
// its outputs.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/infer/infer.h"

namespace attune {

class NodeInference {
 public:
  NodeInference(Inference& inference, Node& node);

  Inference& inference() { return inference_; }
  Node& node() const { return node_; }
  int64_t opset() const;  // that the model imports for the node's domain; the newest if none

  // Inputs. One that is absent has no type.
  bool has(size_t input) const { return node_.input(input) != nullptr; }
  size_t input_count() const { return node_.inputs().size(); }
  const ValueType& type(size_t input) const;
  DataType element(size_t input) const { return type(input).tensor.element; }
  const std::optional<Dims>& shape(size_t input) const { return type(input).tensor.shape; }
  int rank(size_t input) const { return type(input).tensor.rank(); }
  Dim dim(size_t input, int axis) const { return type(input).tensor.dim(axis); }
  const SymbolicTensor* contents(size_t input) const;
  // The contents with all elements unknown where nothing else is; null if the tensor isn't small.
  std::optional<SymbolicTensor> elements(size_t input) const;
  std::optional<std::vector<int64_t>> constant_integers(size_t input) const;
  std::optional<int64_t> constant_integer(size_t input) const;  // the only element
  // Throws if the rank is known and another.
  void expect_rank(size_t input, int rank) const;

  // Outputs. Dimensions may be unknown. Outputs that the node doesn't have are ignored.
  size_t output_count() const { return node_.output_count(); }
  void set(size_t output, DataType element, std::optional<Dims> shape = std::nullopt);
  void set_type(size_t output, ValueType type);
  void set_contents(size_t output, SymbolicTensor contents);

  // What is known of two sizes that must be equal. Throws if they can't be.
  Dim unify(const Dim& a, const Dim& b, std::string_view what);
  // Multidirectional broadcasting. Throws if they don't agree.
  Dim broadcast(const Dim& a, const Dim& b);
  Dims broadcast(const Dims& a, const Dims& b);
  // States what the operator needs, for who makes inputs up: changes no type, and doesn't throw.
  // Two sizes are the same; `strict`: also where one is 1.
  void relate(const Dim& a, const Dim& b, bool strict = true);
  // Input `input` has these sizes. Unknown Dims say nothing.
  void relate_shape(size_t input, const Dims& dims, bool strict = true);
  // `size` in `parts` equal parts, which it is a multiple of.
  Dim part(const Dim& size, const Dim& parts);
  // The integers in an input lie in a range.
  void need_integers(size_t input, const Dim& low, const Dim& high);
  Dim fresh();
  // Until leave_scope, symbols of now are not bound: what is inferred may never run. Gives what leave_scope takes.
  int64_t enter_scope();
  void leave_scope(int64_t outer);

  // `axis` (negative from the end) as an index. Throws if it is outside.
  size_t axis(int64_t axis, size_t rank) const;
  [[noreturn]] void fail(std::string message) const;

 private:
  friend class GraphInference;
  struct Output {
    ValueType type;
    std::optional<SymbolicTensor> contents;
  };

  Inference& inference_;
  Node& node_;
  std::vector<Output> outputs_;
};

// The inference rule of an operator.
struct InferRule {
  std::string_view domain, type;
  size_t min_inputs = 0;  // so many inputs must be there
  std::function<void(NodeInference&)> infer;
};

// Null if there is none.
const InferRule* find_infer_rule(std::string_view domain, std::string_view type);

// Rules by family; each is defined in the file of that name.
using InferRules = std::vector<InferRule>;
InferRules attention_rules();
InferRules control_flow_rules();
InferRules elementwise_rules();
InferRules generation_rules();
InferRules linear_algebra_rules();
InferRules movement_rules();
InferRules normalization_rules();
InferRules recurrent_rules();
InferRules reduction_rules();
InferRules reshape_rules();
InferRules sequence_rules();

}  // namespace attune
