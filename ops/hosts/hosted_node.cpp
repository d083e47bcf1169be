#include "ops/hosts/hosted_node.h"

#include "graph/error.h"
#include "ops/evaluate.h"
#include "ops/op.h"

namespace attune {

HostedNode::HostedNode(const OperatorSignature& signature, std::string label, std::vector<HostedInput> inputs,
                       const std::vector<bool>& outputs, Attributes attributes) {
  std::vector<Value*> values;
  for (HostedInput& i : inputs) {
    if (i.type == DataType::kUndefined) {
      values.push_back(nullptr);
    } else if (i.constant) {
      values.push_back(graph_.add_constant(std::move(*i.constant), std::move(i.name)));
    } else {
      values.push_back(graph_.add_input(std::move(i.name), ValueType::of(i.type)));
    }
  }
  Node* node = graph_.add_node(std::string(kHostedDomain), std::string(signature.name), values, outputs.size(),
                               std::move(attributes));
  node->name = std::move(label);
  node->trim_inputs();
  for (size_t i = outputs.size(); i-- > 0;)
    if (!outputs[i]) node->remove_output(i);
  node_ = node;
  within([&] { return node_->label(); },
         [&] {
           const OpDef* def = find_op(kHostedDomain, signature.name, 1);
           if (!def) throw Error(Error::Kind::kInternal, "the operator is not in this library");
           kernel_ = def->prepare(SimpleContext(*node_, 1));
         });
}

void HostedNode::run(KernelCall& call) const {
  within([&] { return node_->label(); }, [&] { kernel_->run(call); });
}

}  // namespace attune
