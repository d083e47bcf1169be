// Attention(x W_q + b_q, y W_k + b_k, z W_v + b_v)  =  Attention(x, y, z; W_q, W_k, W_v, b_q, b_k, b_v)
#include <fmt/format.h>

#include "passes/attention_node.h"
#include "passes/node_facts.h"
#include "passes/passes.h"
#include "passes/rules.h"

namespace attune {
namespace {

using pattern::any;
using pattern::Builder;
using pattern::Match;
using pattern::one_of;
using pattern::Op;
using pattern::Outcome;
using pattern::Pat;

struct Operand {
  std::string name;
  AttentionInput states, weight, bias;
};

const Operand kOperands[] = {{"query", kAttentionQuery, kAttentionQueryWeight, kAttentionQueryBias},
                             {"key", kAttentionKey, kAttentionKeyWeight, kAttentionKeyBias},
                             {"value", kAttentionValue, kAttentionValueWeight, kAttentionValueBias}};

// x W, x W + b: as MatMul and Add.
Pat projection() {
  Pat product = Op("MatMul")(any("states"), any("weight"));
  return one_of("biased", {Op("Add")(product, any("bias")), product});
}

Pat projected_pattern(size_t which) {
  Pat operands[3] = {any("query"), any("key"), any("value")};
  operands[which] = projection();
  return attention_of(operands[0], operands[1], operands[2]);
}

Outcome rewrite(const Match& m, Builder& b, const Operand& operand) {
  const Node& before = *m.node("attention");
  AttentionParts parts(before);
  const Value *x = m["states"], *weight = m["weight"];
  if (parts.inputs[operand.weight] || parts.inputs[operand.bias])
    return m.refuse(operand.name, "has a projection inside already");
  if (!weight->constant() || weight->tensor_type().rank() != 2)
    return m.refuse("weight", fmt::format("{} is not a constant matrix", weight->type().to_string()));
  if (x->tensor_type().rank() != 3)
    return m.refuse("states", fmt::format("expected rank 3, found {}", x->type().to_string()));
  if (m.choice("biased") == 0) {
    if (!is_constant_vector(*m["bias"], weight->tensor_type().dim(1)))
      return m.refuse(
          "bias", fmt::format("{} is not a constant vector of the projection's width", m["bias"]->type().to_string()));
    parts.inputs[operand.bias] = m["bias"];
  }
  parts.inputs[operand.weight] = m["weight"];
  parts.inputs[operand.states] = m["states"];
  const Node* now = parts.build(b);
  Outcome outcome(now->output(kAttentionContext));
  carry_outputs(before, *now, outcome);
  return outcome.detail(fmt::format("{} projected inside", operand.name));
}

}  // namespace

std::vector<pattern::Rule> rules::qkv_projections() {
  std::vector<pattern::Rule> list;
  for (size_t i = 0; i < std::size(kOperands); ++i) {
    const Operand& operand = kOperands[i];
    // A linear layer in front of an operand whose heads are inside. Those of integers stay in front.
    const auto layer_outside = [operand](const Node& n) {
      const Value* v = n.input(operand.states);
      if (!v || v->tensor_type().rank() != 3 || n.input(operand.weight)) return false;
      const Node* layer = linear_layer_behind(v);
      return layer && layer->is("MatMul") && layer->input(1)->constant();
    };
    list.push_back({"fuse_qkv_projection",
                    projected_pattern(i),
                    [operand](const Match& m, Builder& b) { return rewrite(m, b, operand); },
                    {"ai.attune.Attention"},
                    layer_outside});
  }
  return list;
}

size_t fuse_qkv_projection(PassContext& context) { return pattern::apply_rules(rules::qkv_projections(), context); }

}  // namespace attune
