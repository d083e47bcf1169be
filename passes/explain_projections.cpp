// Heads that are split outside of an Attention, and linear layers in front of its operands, belong inside. The report
// says of those that stayed why.
#include <algorithm>
#include <array>
#include <string>

#include "passes/node_facts.h"
#include "passes/passes.h"
#include "passes/rules.h"

namespace attune {

namespace {

// A constant matrix, or one in quantized storage.
bool is_matrix(const Value* v) {
  const Node* n = v ? v->producer() : nullptr;
  if (n && n->is("DequantizeLinear")) v = n->input(0);
  return v && v->constant() && v->tensor_type().rank() == 2;
}

}  // namespace

namespace rules {

bool is_linear_layer(const Node& n) {
  const bool multiplies = n.type().find("MatMul") != std::string::npos || n.is("Gemm");
  return multiplies && std::any_of(n.inputs().begin() + 1, n.inputs().end(), is_matrix);
}

const Node* linear_layer_behind(const Value* v, int depth) {
  constexpr int kMaxSteps = 8;
  constexpr std::array kSteps{"Add",  "Sub",    "Mul",     "Div",       "Max",     "Min",     "Neg",      "Abs",
                              "Relu", "Tanh",   "Sigmoid", "Cast",      "Clip",    "Pow",     "Slice",    "Split",
                              "Tile", "Expand", "Concat",  "Transpose", "Reshape", "Squeeze", "Unsqueeze"};
  const Node* n = v ? v->producer() : nullptr;
  if (!n || depth > kMaxSteps) return nullptr;
  if (is_linear_layer(*n)) return n;
  if (!is_one_of(*n, kSteps)) return nullptr;
  for (const Value* input : n->inputs())
    if (const Node* found = linear_layer_behind(input, depth + 1)) return found;
  return nullptr;
}

}  // namespace rules

size_t explain_projections(PassContext& context) {
  std::vector<pattern::Rule> list = rules::qkv_projections();
  list.push_back(rules::attention_heads());
  list.push_back(rules::attention_memory_heads());
  for (const pattern::Rule& rule : list)
    for (auto& miss : pattern::explain_anchors({&rule, 1}, context.model))
      context.report.near_misses.push_back(std::move(miss));
  return 0;
}

}  // namespace attune
