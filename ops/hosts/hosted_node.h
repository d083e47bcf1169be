// A node of ai.attune in another runtime's graph, with its kernel.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "ops/hosts/signatures.h"
#include "ops/kernel.h"

namespace attune {

// An input as the host knows it when the node is made. Left out: no type.
struct HostedInput {
  DataType type = DataType::kUndefined;
  std::optional<Tensor> constant;  // weights are packed then
  std::string name = {};           // for messages
};

// Immutable once made, but for the pool; any number of threads may call run().
class HostedNode {
 public:
  // `outputs` says which are wanted. Throws Error as the kernel does.
  HostedNode(const OperatorSignature& signature, std::string label, std::vector<HostedInput> inputs,
             const std::vector<bool>& outputs, Attributes attributes);

  size_t output_count() const { return node_->output_count(); }
  bool wants(size_t output) const { return node_->output(output) != nullptr; }
  // False for a constant that the kernel took in when it was made.
  bool uses_input(size_t input) const { return kernel_->uses_input(input); }
  BufferPool* pool() const { return &pool_; }
  void run(KernelCall& call) const;

 private:
  Graph graph_;
  const Node* node_ = nullptr;
  std::unique_ptr<Kernel> kernel_;
  mutable BufferPool pool_;
};

}  // namespace attune
