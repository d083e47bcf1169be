#include "ops/evaluate.h"

#include <fmt/format.h>

#include "ops/op.h"

namespace attune {

SimpleContext::SimpleContext(const Node& node, int64_t opset, std::vector<const Tensor*> constants)
    : node_(node), opset_(opset), constants_(std::move(constants)) {}

const Tensor* SimpleContext::constant(size_t input) const {
  if (input < constants_.size() && constants_[input]) return constants_[input];
  const Value* v = node_.input(input);
  return v ? v->constant() : nullptr;
}

std::shared_ptr<const Subprogram> SimpleContext::compile(std::string_view attribute) const {
  throw Error(Error::Kind::kUnsupported, fmt::format("a node with a body ('{}') can't run on its own", attribute));
}

SimpleCall::SimpleCall(std::vector<Datum> inputs, size_t outputs, BufferPool* pool)
    : inputs_(std::move(inputs)), outputs_(outputs), wanted_(outputs, true), pool_(pool) {}

const Datum& SimpleCall::datum(size_t input) const {
  static const Datum kNone;
  return input < inputs_.size() ? inputs_[input] : kNone;
}

void SimpleCall::set_datum(size_t output, Datum value) {
  if (output < outputs_.size()) outputs_[output] = std::move(value);
}

Datum SimpleCall::take(size_t input) {
  if (input >= inputs_.size()) return {};
  return std::move(inputs_[input]);
}

void SimpleCall::run(const Subprogram&, std::vector<Datum>&) {
  throw Error(Error::Kind::kUnsupported, "a node with a body can't run on its own");
}

std::vector<Datum> evaluate(const Node& node, int64_t opset, std::vector<Datum> inputs) {
  return within([&] { return node.label(); },
                [&] {
                  const OpDef* op = find_op(node.domain(), node.type(), opset);
                  if (!op || !op->prepare)
                    throw Error(Error::Kind::kUnsupported,
                                fmt::format("no kernel for {} (opset {})", node.type(), opset));
                  const SimpleContext context(node, opset);
                  const auto kernel = op->prepare(context);
                  SimpleCall call(std::move(inputs), node.output_count(), nullptr);
                  for (size_t i = 0; i < node.output_count(); ++i) call.set_wanted(i, node.output(i) != nullptr);
                  kernel->run(call);
                  for (Datum& output : call.outputs())
                    if (output.kind() == Datum::Kind::kTensor) output.tensor() = output.tensor().to_contiguous();
                  return std::move(call.outputs());
                });
}

}  // namespace attune
