// Infers graphs node by node; rules of operators with bodies use it, too.
#pragma once

#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ops/infer/infer.h"

namespace attune {

class GraphInference {
 public:
  explicit GraphInference(Inference& inference) : inference_(inference) {}

  // Infers all nodes. Types that are known already are refined.
  void infer(Graph& graph);
  // Infers one node. Gives the outputs whose type or contents changed.
  std::vector<Value*> infer(Node& node);

  // What is said about `value` from outside its graph: merges a type, replaces the contents.
  // Throws Error(kInvalidModel) on contradiction. True if something changed.
  bool assign(Value& value, const ValueType& type, std::optional<SymbolicTensor> contents);
  // Replaces what is known by what equals it.
  Dim resolve(const Dim& dim) const;
  void resolve(Value& value) const;
  void resolve_all(Graph& graph) const;
  // Gives unknown dimensions fresh symbols.
  void name_unknown(ValueType& type);
  Dim fresh();
  // Two sizes that must be equal: the better known. Nothing if they are different numbers.
  std::optional<Dim> unify(const Dim& a, const Dim& b);
  ValueType merge(const ValueType& declared, const ValueType& inferred);

  // What inferring `body` changes, so that it can be inferred again from other types of its inputs.
  struct Snapshot {
    std::vector<std::pair<Value*, ValueType>> types;
    std::map<std::string, Dim, std::less<>> equal;
    size_t relations = 0;
  };
  Snapshot save(Graph& body) const;
  void restore(const Snapshot& snapshot);

 private:
  Inference& inference_;
};

// The N of "?N"; -1 for other symbols.
int64_t fresh_number(std::string_view symbol);
// With "" for the domain "ai.onnx".
std::map<std::string, int64_t> normalized_opsets(const std::map<std::string, int64_t>& imports);
// True for "?N".
bool is_fresh(const Dim& dim);
bool same_type(const ValueType& a, const ValueType& b);
// Calls `f` for each value of the graph and the bodies in it.
void for_each_value(Graph& graph, const std::function<void(Value&)>& f);

}  // namespace attune
