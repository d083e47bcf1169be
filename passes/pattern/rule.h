// Rules: a pattern, and what takes its place.
//
//   Rule fuse_double() {                      // x + x = 2 x
//     Pat x = any("x");
//     return {"fuse_double", Op("Add")(x, x), [](const Match& m, Builder& b) -> Outcome {
//               if (!is_float(m["x"]->element_type())) return m.refuse("x", "is not a float tensor");
//               return b.op("Mul", {m["x"], b.scalar(2.0, m["x"]->element_type())});
//             }};
//   }
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "passes/pass.h"
#include "passes/pattern/match.h"

namespace attune::pattern {

// New nodes of one rewrite. They join the graph when the rewrite is accepted; else nothing of them stays.
class Builder {
 public:
  // The nodes come before `before`.
  Builder(Node* before, Inference& inference, int64_t opset)
      : graph_(*before->graph()), before_(before), inference_(inference), opset_(opset) {}
  ~Builder();
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  // The only output of a new node.
  Value* op(std::string type, std::vector<Value*> inputs, Attributes attributes = {}, std::string domain = {});
  // A new node; its type is inferred. Nulls at the end of `inputs` are dropped.
  Node* node(std::string domain, std::string type, std::vector<Value*> inputs, size_t outputs,
             Attributes attributes = {});
  Value* constant(Tensor tensor);
  Value* integers(std::vector<int64_t> values);  // int64, rank 1
  Value* scalar(double value, DataType type);    // rank 0; float types

  // Operators whose form depends on the opset.
  Value* unsqueeze(Value* x, std::vector<int64_t> axes);
  Value* squeeze(Value* x, std::vector<int64_t> axes);
  Value* transpose(Value* x, std::vector<int64_t> perm);
  Value* reshape(Value* x, std::vector<int64_t> shape);

  Inference& inference() { return inference_; }
  int64_t opset() const { return opset_; }  // of ai.onnx
  Graph& graph() { return graph_; }
  void commit() { committed_ = true; }

 private:
  Graph& graph_;
  Node* before_;
  Inference& inference_;
  int64_t opset_;
  std::vector<Node*> nodes_;
  std::vector<Value*> constants_;
  bool committed_ = false;
};

struct Rule {
  std::string name;  // "fuse_attention"
  Pat pattern;
  std::function<Outcome(const Match&, Builder&)> rewrite;
  // Operators ("Softmax", "ai.attune.Attention") whose occurrences the report explains when they are left.
  std::vector<std::string> anchors = {};
  // Which occurrences; null: all.
  std::function<bool(const Node&)> is_left = nullptr;
};

// Applies the rules to the model's graph and all bodies until none matches any more, at most 1000 times (its report
// names the rule then). Rules of a list are tried in order at each node. Rewrites are recorded in the context's report,
// and stop where max_rewrites does. Gives their number.
size_t apply_rules(std::span<const Rule> rules, PassContext& context);

// One near miss for each anchor of `rules` that is left in the model: of the rule that came furthest.
std::vector<NearMiss> explain_anchors(std::span<const Rule> rules, const Model& model);

}  // namespace attune::pattern
