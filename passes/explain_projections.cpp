// Heads that are split outside of an Attention, and linear layers in front of its operands, belong inside. The report
// says of those that stayed why.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>

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

constexpr int kMaxSteps = 8;

// Whether each position's part of `v` is turned by an angle: x cos + (x turned by a right angle) sin.
bool is_rotated(const Value* v, int depth = 0) {
  constexpr std::array kMoves{"Concat", "Reshape", "Transpose", "Unsqueeze", "Cast"};
  const Node* n = v ? v->producer() : nullptr;
  if (!n || depth > kMaxSteps) return false;
  const auto is_product = [](const Value* x) { return x->producer() && x->producer()->is("Mul"); };
  if (n->is("Add")) return is_product(n->input(0)) && is_product(n->input(1));
  return is_one_of(*n, kMoves) &&
         std::any_of(n->inputs().begin(), n->inputs().end(), [&](const Value* x) { return is_rotated(x, depth + 1); });
}

// Whether each position's part of `v` was divided by a norm.
bool is_normalized(const Value* v, int depth = 0) {
  constexpr std::array kMoves{"Mul", "Reshape", "Transpose", "Cast"};
  const Node* n = v ? v->producer() : nullptr;
  if (!n || depth > kMaxSteps) return false;
  if (n->type().find("Normalization") != std::string::npos) return true;
  if (n->is("Div")) return !n->input(1)->constant() && n->input(1)->tensor_type().dim(-1).is(1);
  return is_one_of(*n, kMoves) && std::any_of(n->inputs().begin(), n->inputs().end(),
                                              [&](const Value* x) { return is_normalized(x, depth + 1); });
}

// The node that puts other rows beside those of `v`, as keys of their own (nn.MultiheadAttention's bias_k and zeros),
// or heads one after the other; null if there is none.
const Node* join_of(const Value* v, int depth = 0) {
  constexpr std::array kMoves{"Reshape", "Transpose", "Cast", "Squeeze", "Unsqueeze", "Mul", "Div"};
  const Node* n = v ? v->producer() : nullptr;
  if (!n || depth > kMaxSteps) return nullptr;
  const int rank = n->output() ? n->output()->tensor_type().rank() : -1;
  if (n->is("Concat") && rank > 0 && from_front(n->attr_int("axis", 0), rank) != rank - 1) return n;
  return is_one_of(*n, kMoves) ? join_of(n->input(0), depth + 1) : nullptr;
}

// What stands between a projection and its Attention at `v`, by its name in the field; empty if it has none.
std::string between(const Value& v) {
  constexpr const char* kStays =
      "; queries, keys or values are {} between their projection and the scores: the Attention takes what comes of it, "
      "with heads apart, and what stands in front stays there";
  if (is_rotated(&v)) return fmt::format(kStays, "rotated by positions (rotary embedding)");
  if (is_normalized(&v)) return fmt::format(kStays, "normalized");
  const Node* join = join_of(&v);
  return join ? fmt::format(kStays, "joined with other rows by " + join->label()) : std::string();
}

}  // namespace

namespace rules {

bool is_linear_layer(const Node& n) {
  const bool multiplies = n.type().find("MatMul") != std::string::npos || n.is("Gemm");
  return multiplies && std::any_of(n.inputs().begin() + 1, n.inputs().end(), is_matrix);
}

const Node* linear_layer_behind(const Value* v, int depth) {
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
  std::map<std::string_view, const Value*> values;
  context.model.graph->for_each_node([&](const Node& n) {
    if (n.output()) values[n.output()->name()] = n.output();
  });
  for (const pattern::Rule& rule : list)
    for (auto& miss : pattern::explain_anchors({&rule, 1}, context.model)) {
      if (const auto v = values.find(miss.value); v != values.end()) miss.reason += between(*v->second);
      context.report.near_misses.push_back(std::move(miss));
    }
  return 0;
}

}  // namespace attune
