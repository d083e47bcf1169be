// Static types, symbolic shapes, and symbolic values of small tensors.
//
// Exporters compute Reshape targets, axes, ranges and scales with Shape, Gather, Concat, Slice, Mul, Range, Sqrt ...
// Inference follows these subgraphs, so that a rule can ask what a value is, whatever computed it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"

namespace attune {

// The contents of a tensor of at most 64 elements whose shape is constant.
// Elements that aren't known are unknown Dims, or missing doubles (which are rounded to the element type).
struct SymbolicTensor {
  static constexpr size_t kMaxElements = 64;

  DataType type = DataType::kUndefined;
  std::vector<int64_t> shape;
  std::vector<Dim> integers;                 // integer and bool tensors (bool: 0 or 1)
  std::vector<std::optional<double>> reals;  // float tensors

  bool is_integer() const { return reals.empty(); }
  size_t size() const { return is_integer() ? integers.size() : reals.size(); }
};

// Two sizes that an operator needs to be the same.
struct SizeRelation {
  Dim a, b;
  // False: one of them may be 1 instead (broadcasting), or the node runs under a condition.
  bool strict = true;
};

// What an operator needs the integers in one of its inputs to be, both included.
struct IntegerRange {
  Dim low, high;
};

class Inference {
 public:
  // Infers the graph of the model and all bodies, and sets the types of values. An inferred dimension replaces a
  // declared symbol, a declared number stays; a dimension nothing is known of gets a fresh symbol "?N" that tracks
  // equality. Keeps references to `model`.
  // Throws Error(kInvalidModel) that names the node where types or shapes contradict, Error(kLimit) where loops or
  // calls nest so deeply that it would take too long.
  explicit Inference(const Model& model);
  Inference(Graph& graph, const std::map<std::string, int64_t>& opset_imports);

  // The contents of `value`; null if nothing is known.
  const SymbolicTensor* contents(const Value* value) const;
  // The only element, if it is known.
  std::optional<double> scalar(const Value* value) const;
  // All elements as Dims (some may be unknown); nothing if it isn't a small integer tensor.
  std::optional<Dims> integers(const Value* value) const;
  // All elements, if each is a constant integer.
  std::optional<std::vector<int64_t>> constant_integers(const Value* value) const;

  // What the operators need of sizes that is not known to hold, in order, each once.
  std::vector<SizeRelation> relations();
  // What the operators that read `value` need its elements to be; null if nothing is known.
  const IntegerRange* needed_integers(const Value* value) const;

  // Infers a node that was added since, and its users as far as types change.
  void update(Node* node);

 private:
  friend class NodeInference;
  friend class GraphInference;
  friend class CallScope;

  void run();
  void refill_budget();

  struct Constant {
    Tensor tensor;  // held, so that its address stands for no other
    std::optional<SymbolicTensor> contents;
  };

  std::map<std::string, int64_t> opsets_;
  const Model* model_ = nullptr;  // for model-local functions; may be null
  Graph* root_ = nullptr;
  std::unordered_map<const Value*, SymbolicTensor> contents_;
  mutable std::unordered_map<const Value*, Constant> constants_;
  std::vector<SizeRelation> relations_;
  std::unordered_map<const Value*, IntegerRange> needed_integers_;
  std::map<std::string, Dim, std::less<>> equal_;  // fresh symbols that turned out to equal something
  int64_t fresh_ = 0;                              // the next "?N"
  int64_t scope_ = 0;                              // symbols below are not bound
  int64_t budget_ = 0;                             // nodes that may still be inferred
  int depth_ = 0;                                  // of nested function calls
  int conditions_ = 0;                             // under which what is inferred now runs
};

}  // namespace attune
