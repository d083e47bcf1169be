// Runs single nodes outside a plan: constant folding, tests, and hosts.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"
#include "ops/kernel.h"

namespace attune {

// A KernelContext for a node without bodies.
class SimpleContext : public KernelContext {
 public:
  // `constants` may be shorter than the inputs; null: not constant (a constant input Value is seen anyway).
  SimpleContext(const Node& node, int64_t opset, std::vector<const Tensor*> constants = {});
  const Node& node() const override { return node_; }
  int64_t opset() const override { return opset_; }
  const Tensor* constant(size_t input) const override;
  std::shared_ptr<const Subprogram> compile(std::string_view attribute) const override;  // throws kUnsupported
  const KernelOptions& options() const override { return options_; }

 private:
  const Node& node_;
  int64_t opset_;
  std::vector<const Tensor*> constants_;
  KernelOptions options_;
};

// A KernelCall over given inputs.
class SimpleCall : public KernelCall {
 public:
  SimpleCall(std::vector<Datum> inputs, size_t outputs, BufferPool* pool);
  size_t input_count() const override { return inputs_.size(); }
  size_t output_count() const override { return outputs_.size(); }
  bool wants(size_t output) const override { return output < wanted_.size() && wanted_[output]; }
  void set_wanted(size_t output, bool wanted) { wanted_[output] = wanted; }
  const Datum& datum(size_t input) const override;
  void set_datum(size_t output, Datum value) override;
  Datum take(size_t input) override;
  BufferPool* pool() const override { return pool_; }
  void run(const Subprogram& body, std::vector<Datum>& values) override;  // throws kUnsupported
  std::vector<Datum>& outputs() { return outputs_; }

 protected:
  Tensor& stored_tensor(size_t output) override { return outputs_.at(output).tensor(); }

 private:
  std::vector<Datum> inputs_, outputs_;
  std::vector<bool> wanted_;
  BufferPool* pool_;
};

// Evaluates `node` on `inputs`. Throws Error(kUnsupported) if there is no kernel for it.
std::vector<Datum> evaluate(const Node& node, int64_t opset, std::vector<Datum> inputs);

}  // namespace attune
