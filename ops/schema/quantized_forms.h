// Operators that ONNX Runtime's quantiser writes, as standard operators around DequantizeLinear and QuantizeLinear.
#pragma once

#include <optional>

#include "graph/graph.h"

namespace attune {

// A function to inline in place of `node` (see graph/inline.h); nothing if its operator has no such form. Serves
// com.microsoft's QLinearAdd, QLinearMul, QLinearConcat, QLinearWhere, QLinearSigmoid, QLinearLeakyRelu,
// QLinearReduceMean, QLinearAveragePool, QLinearGlobalAveragePool, QLinearConv (with channels at the
// end), NhwcMaxPool, QGemm, and MatMulNBits of 4 and 8 bits, whose weights stay packed. Throws Error(kUnsupported) with
// the reason where the node asks for what the form doesn't give, Error(kInvalidModel) where shapes of its weights
// contradict its attributes.
std::optional<Function> quantized_form(const Node& node);

}  // namespace attune
