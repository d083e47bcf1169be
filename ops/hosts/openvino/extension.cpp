// libattune_openvino.so: the operators of ai.attune for OpenVINO (core.add_extension), from ONNX files and from
// OpenVINO's own.
#include <openvino/core/except.hpp>
#include <openvino/core/extension.hpp>
#include <openvino/core/op_extension.hpp>
#include <openvino/frontend/extension.hpp>
#include <openvino/frontend/onnx/extension/conversion.hpp>
#include <string>

#include "ops/hosts/openvino/hosted_op.h"
#include "ops/infer/schema_fallback.h"

namespace attune {

// Nodes are of ai.attune, whose rules are here.
void infer_by_schema(NodeInference&) {}

namespace openvino {
namespace {

// The attribute if the node has it.
void read_attribute(const ov::frontend::NodeContext& node, const AttributeSignature& a, Attributes& to) {
  const std::string name(a.name);
  if (!node.has_attribute(name)) return;
  switch (a.kind) {
    case AttributeSignature::Kind::kInt:
      to.emplace(name, node.get_attribute<int64_t>(name));
      return;
    case AttributeSignature::Kind::kFloat:
      to.emplace(name, node.get_attribute<float>(name));
      return;
    case AttributeSignature::Kind::kString:
      to.emplace(name, node.get_attribute<std::string>(name));
      return;
    case AttributeSignature::Kind::kInts:
      to.emplace(name, node.get_attribute<std::vector<int64_t>>(name));
      return;
  }
}

ov::OutputVector convert(const OperatorSignature& signature, const ov::frontend::NodeContext& node) {
  ov::OutputVector inputs;
  std::vector<int64_t> positions;
  for (size_t i = 0; i < node.get_input_size(); ++i) {
    const ov::Output<ov::Node> input = node.get_input(static_cast<int>(i));
    // How the frontend marks an input that is left out.
    if (std::string_view(input.get_node()->get_type_info().name) == "NullNode") continue;
    inputs.push_back(input);
    positions.push_back(static_cast<int64_t>(i));
  }
  Attributes attributes;
  for (const AttributeSignature& a : signature.attributes) {
    try {
      read_attribute(node, a, attributes);
    } catch (const std::exception& e) {
      OPENVINO_THROW("attune: ", signature.name, ": attribute '", a.name, "': ", e.what());
    }
  }
  return std::make_shared<HostedOp>(signature, inputs, std::move(positions), std::move(attributes))->outputs();
}

// For OpenVINO's own model files.
class OperatorExtension : public ov::BaseOpExtension {
 public:
  explicit OperatorExtension(const OperatorSignature& signature) : signature_(signature) {}
  const ov::DiscreteTypeInfo& get_type_info() const override { return type_info(signature_); }
  ov::OutputVector create(const ov::OutputVector& inputs, ov::AttributeVisitor& visitor) const override {
    return std::make_shared<HostedOp>(signature_, inputs, visitor)->outputs();
  }
  std::vector<ov::Extension::Ptr> get_attached_extensions() const override { return {}; }

 private:
  const OperatorSignature& signature_;
};

std::vector<ov::Extension::Ptr> extensions() {
  std::vector<ov::Extension::Ptr> all;
  for (const OperatorSignature& s : operator_signatures()) {
    all.push_back(std::make_shared<OperatorExtension>(s));
    all.push_back(std::make_shared<ov::frontend::onnx::ConversionExtension>(
        std::string(s.name), std::string(kHostedDomain),
        [&s](const ov::frontend::NodeContext& node) { return convert(s, node); }));
  }
  return all;
}

}  // namespace
}  // namespace openvino
}  // namespace attune

OPENVINO_CREATE_EXTENSIONS(attune::openvino::extensions())
