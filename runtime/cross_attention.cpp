#include "runtime/cross_attention.h"

#include <fmt/format.h>

#include <unordered_set>

#include "ops/support/attention_inputs.h"

namespace attune {
namespace {

// The values that depend on an integer input.
std::unordered_set<const Value*> depending_on_tokens(const Graph& graph) {
  std::unordered_set<const Value*> out;
  for (const Value* v : graph.inputs())
    if (is_integer(v->element_type())) out.insert(v);
  for (const Node* node : graph.topological_order()) {
    bool depends = false;
    for (const Value* v : node->inputs()) depends = depends || out.contains(v);
    for (const Graph* body : node->subgraphs())
      for (const Value* v : body->captured()) depends = depends || out.contains(v);
    for (size_t i = 0; depends && i < node->output_count(); ++i) out.insert(node->output(i));
  }
  return out;
}

}  // namespace

size_t give_cross_attention_weights(Graph& decoder) {
  const auto on_tokens = depending_on_tokens(decoder);
  size_t count = 0;
  for (Node* node : decoder.topological_order()) {
    if (!node->is("Attention", "ai.attune") || !node->input(kAttentionKey) ||
        on_tokens.contains(node->input(kAttentionKey)))
      continue;
    if (node->output(kAttentionWeights)) continue;  // what it gives already, somebody uses
    const size_t before = node->output_count();
    while (node->output_count() <= kAttentionWeights) node->add_output();
    for (size_t i = before; i < kAttentionWeights; ++i) node->remove_output(i);
    node->set("weights_output", std::string("head_mean"));
    Value* weights = node->output(kAttentionWeights);
    weights->set_name(fmt::format("cross_attention_weights.{}", count++));
    weights->set_type(ValueType::of(node->output(0)->element_type()));
    decoder.add_output(weights);
  }
  return count;
}

}  // namespace attune
