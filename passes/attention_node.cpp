#include "passes/attention_node.h"

#include "ops/support/attention_parts.h"

namespace attune {

using pattern::Builder;
using pattern::Op;
using pattern::Outcome;
using pattern::Pat;

AttentionParts::AttentionParts(const Node& node) : attributes(node.attributes()) {
  for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = node.input(i);
}

Node* AttentionParts::build(Builder& builder) const {
  return builder.node(std::string(kAttuneDomain), "Attention", {inputs.begin(), inputs.end()}, kAttentionOutputs,
                      attributes);
}

bool is_attention(const Node* node) { return node && is_attention(*node); }

bool is_used(const Node& node, size_t i) {
  const Value* v = node.output(i);
  return v && (!v->uses().empty() || v->is_graph_output());
}

void carry_outputs(const Node& before, const Node& now, Outcome& outcome) {
  for (size_t i = kAttentionContext + 1; i < kAttentionOutputs; ++i)
    if (is_used(before, i)) outcome.also(before.output(i), now.output(i));
}

Pat attention_of(Pat query, Pat key, Pat value) {
  return Op("Attention", "attention").domain(std::string(kAttuneDomain)).further_inputs().replaced()(query, key, value);
}

bool may_be_equal(const Dim& a, const Dim& b) {
  if (!a.known() || !b.known() || a == b) return true;
  const auto x = a.constant(), y = b.constant();
  if (x && y) return false;
  return !(x == 1) && !(y == 1);
}

}  // namespace attune
