#include "ops/hosts/openvino/hosted_op.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <openvino/core/except.hpp>
#include <openvino/op/constant.hpp>

#include "graph/error.h"
#include "ops/evaluate.h"
#include "ops/hosts/openvino/attribute_text.h"
#include "ops/hosts/openvino/types.h"
#include "ops/hosts/openvino/workers.h"
#include "ops/infer/infer.h"

namespace attune::openvino {
namespace {

// Runs `body`; an Error becomes an exception of OpenVINO's.
template <class F>
decltype(auto) guarded(F&& body) {
  try {
    return body();
  } catch (const Error& e) {
    OPENVINO_THROW("attune: ", e.what());
  }
}

std::shared_ptr<ov::op::v0::Constant> constant_input(const ov::Node& node, size_t input) {
  return ov::as_type_ptr<ov::op::v0::Constant>(node.get_input_node_shared_ptr(input));
}

ov::Tensor tensor_of(const ov::op::v0::Constant& constant) {
  return {constant.get_element_type(), constant.get_shape(), const_cast<void*>(constant.get_data_ptr())};
}

// One call over OpenVINO's tensors.
class HostCall : public SimpleCall {
 public:
  HostCall(ov::TensorVector& to, std::vector<Datum> inputs, size_t outputs, BufferPool* pool)
      : SimpleCall(std::move(inputs), outputs, pool), to_(to) {}

  // Written in place, but where the host holds another type.
  Tensor& output(size_t i, DataType type, const Shape& shape) override {
    if (!wants(i) || data_type(to_[i].get_element_type()) != type) return SimpleCall::output(i, type, shape);
    SimpleCall::set_datum(i, Datum(shaped(to_[i], type, shape)));
    return stored_tensor(i);
  }
  void finish() {
    for (size_t i = 0; i < output_count(); ++i) {
      if (!wants(i)) continue;
      const Tensor& t = stored_tensor(i);
      if (t.raw() != to_[i].data()) write_tensor(t, to_[i]);
    }
  }

 private:
  ov::TensorVector& to_;
};

}  // namespace

const ov::DiscreteTypeInfo& type_info(const OperatorSignature& signature) {
  static const auto* const all = [] {
    auto* infos = new std::map<std::string_view, ov::DiscreteTypeInfo>;
    for (const OperatorSignature& s : operator_signatures())
      infos->emplace(s.name,
                     ov::DiscreteTypeInfo{s.name.data(), kHostedDomain.data(), &ov::op::Op::get_type_info_static()});
    return infos;
  }();
  return all->at(signature.name);
}

HostedOp::HostedOp(const OperatorSignature& signature, const ov::OutputVector& inputs, std::vector<int64_t> positions,
                   Attributes attributes)
    : Op(inputs), signature_(signature), positions_(std::move(positions)), attributes_(std::move(attributes)) {
  constructor_validate_and_infer_types();
}

HostedOp::HostedOp(const OperatorSignature& signature, const ov::OutputVector& inputs, ov::AttributeVisitor& visitor)
    : Op(inputs), signature_(signature) {
  visit_attributes(visitor);
  constructor_validate_and_infer_types();
}

const PortSignature& HostedOp::port(size_t input) const {
  return signature_.inputs.at(static_cast<size_t>(positions_.at(input)));
}

DataType HostedOp::kernel_type(size_t input, const ov::element::Type& type) const {
  const DataType held = data_type(type);
  const PortSignature& p = port(input);
  if (p.type == PortType::kInt64 && held == DataType::kInt32) return DataType::kInt64;
  if (p.type == PortType::kMask && held == DataType::kUInt8) return DataType::kBool;
  const bool fits = p.type == PortType::kInt64  ? held == DataType::kInt64
                    : p.type == PortType::kMask ? is_float(held) || held == DataType::kBool
                                                : is_float(held);
  if (!fits)
    throw Error(Error::Kind::kInvalidModel,
                fmt::format("{}: input '{}' of type {}", signature_.name, p.name, type.get_type_name()));
  return held;
}

void HostedOp::validate_and_infer_types() {
  guarded([&] {
    if (positions_.size() != get_input_size())
      throw Error(Error::Kind::kInvalidModel, "as many positions as inputs are expected");
    Graph graph;
    std::vector<Value*> values(signature_.inputs.size());
    for (size_t i = 0; i < get_input_size(); ++i) {
      if (get_input_element_type(i).is_dynamic()) continue;
      const DataType type = kernel_type(i, get_input_element_type(i));
      Value*& value = values.at(static_cast<size_t>(positions_[i]));
      // Sizes that are given as values.
      const auto constant = type == DataType::kInt64 ? constant_input(*this, i) : nullptr;
      if (constant) {
        value = graph.add_constant(read_tensor(tensor_of(*constant), type));
      } else {
        value = graph.add_input({}, ValueType::of(type, dims(get_input_partial_shape(i))));
      }
    }
    attune::Node* node = graph.add_node(std::string(kHostedDomain), std::string(signature_.name), values,
                                        signature_.outputs.size(), attributes_);
    node->trim_inputs();
    const Inference inference(graph, {{std::string(kHostedDomain), 1}});
    const ov::element::Type type = get_input_size() > 0 ? get_input_element_type(0) : ov::element::dynamic;
    for (size_t i = 0; i < signature_.outputs.size(); ++i)
      set_output_type(i, signature_.outputs[i].type == PortType::kInt64 ? ov::element::i64 : type,
                      partial_shape(node->output(i)->tensor_type().shape));
  });
}

std::shared_ptr<ov::Node> HostedOp::clone_with_new_inputs(const ov::OutputVector& inputs) const {
  return std::make_shared<HostedOp>(signature_, inputs, positions_, attributes_);
}

bool HostedOp::visit_attributes(ov::AttributeVisitor& visitor) {
  return guarded([&] {
    std::string text = to_text(attributes_);
    visitor.on_attribute("positions", positions_);
    visitor.on_attribute("attributes", text);
    attributes_ = from_text(signature_, text);
    return true;
  });
}

// All that may be asked for, if nobody consumes anything: a node that is evaluated on its own.
std::vector<bool> HostedOp::wanted_outputs() const {
  std::vector<bool> wanted;
  for (size_t i = 0; i < get_output_size(); ++i) wanted.push_back(!get_output_target_inputs(i).empty());
  if (std::find(wanted.begin(), wanted.end(), true) == wanted.end())
    for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = !signature_.outputs[i].optional;
  return wanted;
}

const HostedNode& HostedOp::hosted_node() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (hosted_) return *hosted_;
  std::vector<HostedInput> inputs(signature_.inputs.size());
  for (size_t i = 0; i < get_input_size(); ++i) {
    HostedInput& input = inputs.at(static_cast<size_t>(positions_[i]));
    input.type = kernel_type(i, get_input_element_type(i));
    if (const auto constant = constant_input(*this, i)) input.constant = read_tensor(tensor_of(*constant), input.type);
  }
  hosted_ =
      std::make_unique<HostedNode>(signature_, get_friendly_name(), std::move(inputs), wanted_outputs(), attributes_);
  return *hosted_;
}

bool HostedOp::evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const {
  guarded([&] {
    ArenaWorkers workers;
    const WorkersScope scope(workers);
    const HostedNode& node = hosted_node();
    std::vector<Datum> data(signature_.inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto position = static_cast<size_t>(positions_.at(i));
      if (node.uses_input(position))
        data[position] = Datum(read_tensor(inputs[i], kernel_type(i, inputs[i].get_element_type())));
    }
    HostCall call(outputs, std::move(data), node.output_count(), node.pool());
    for (size_t i = 0; i < node.output_count(); ++i) call.set_wanted(i, node.wants(i));
    node.run(call);
    call.finish();
  });
  return true;
}

}  // namespace attune::openvino
