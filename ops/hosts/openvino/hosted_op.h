// An operator of ai.attune as a node of OpenVINO's: one class for all of them.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <openvino/op/op.hpp>
#include <string>
#include <vector>

#include "ops/hosts/hosted_node.h"

namespace attune::openvino {

// The type of OpenVINO's nodes of an operator: its name, in version "ai.attune".
const ov::DiscreteTypeInfo& type_info(const OperatorSignature& signature);

// Thread-safe. Has an output for each of the signature's; those without a consumer are not computed.
class HostedOp : public ov::op::Op {
 public:
  // OpenVINO has no absent inputs: `positions` says which of the signature's inputs each of `inputs` is.
  // Throws ov::Exception for a node that breaks the operator's rules.
  HostedOp(const OperatorSignature& signature, const ov::OutputVector& inputs, std::vector<int64_t> positions,
           Attributes attributes);
  // A node of an OpenVINO model file: positions and attributes come from `visitor`.
  HostedOp(const OperatorSignature& signature, const ov::OutputVector& inputs, ov::AttributeVisitor& visitor);

  const ov::DiscreteTypeInfo& get_type_info() const override { return type_info(signature_); }
  void validate_and_infer_types() override;
  std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override;
  bool visit_attributes(ov::AttributeVisitor& visitor) override;
  bool has_evaluate() const override { return true; }
  bool evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const override;

 private:
  std::vector<bool> wanted_outputs() const;
  const HostedNode& hosted_node() const;
  const PortSignature& port(size_t input) const;
  // The type that the kernel gets for an input. Plug-ins turn int64 into int32 and bool into bytes on their way.
  DataType kernel_type(size_t input, const ov::element::Type& type) const;

  const OperatorSignature& signature_;
  std::vector<int64_t> positions_;
  Attributes attributes_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<const HostedNode> hosted_;  // made by the first evaluate()
};

}  // namespace attune::openvino
