#include "runtime/narrow_caches.h"

#include <algorithm>
#include <array>
#include <vector>

#include "ops/support/attention_inputs.h"

namespace attune {
namespace {

bool casts_to(const Node& node, DataType type) {
  return node.is("Cast") && static_cast<DataType>(node.attr_int("to", 0)) == type;
}

// What a Cast to float32 widens; null if `value` isn't that.
Value* widened(const Value* value) {
  const Node* cast = value ? value->producer() : nullptr;
  if (!cast || !casts_to(*cast, DataType::kFloat) || !is_half(cast->input(0)->element_type())) return nullptr;
  return cast->input(0);
}

// True if `value` is given out in `type` alone, or not at all.
bool only_narrowed(const Value* value, DataType type) {
  if (!value) return true;
  const auto& uses = value->uses();
  return !value->is_graph_output() &&
         std::all_of(uses.begin(), uses.end(), [&](const Use& u) { return casts_to(*u.node, type); });
}

void give_narrow(Value* value, DataType type) {
  if (!value) return;
  ValueType narrow = value->type();
  narrow.tensor.element = type;
  value->set_type(std::move(narrow));
  const std::vector<Use> uses(value->uses().begin(), value->uses().end());
  for (const Use& u : uses) u.node->graph()->replace_all_uses(u.node->output(), value);
}

// Inputs `key` and `value` become what their Casts widen, if both do and of one type, which then is that of the
// presents, too.
void take_narrow(Node& node, size_t key, size_t value) {
  Value* const k = widened(node.input(key));
  Value* const v = widened(node.input(value));
  if (!k || !v || k->element_type() != v->element_type()) return;
  const DataType type = k->element_type();
  Value* const present_key = node.output(kAttentionPresentKey);
  Value* const present_value = node.output(kAttentionPresentValue);
  if (!only_narrowed(present_key, type) || !only_narrowed(present_value, type)) return;
  node.set_input(key, k);
  node.set_input(value, v);
  give_narrow(present_key, type);
  give_narrow(present_value, type);
}

bool projects_memory(const Node& node) {
  const std::array inputs{kAttentionKeyWeight, kAttentionValueWeight, kAttentionKeyBias, kAttentionValueBias};
  return std::any_of(inputs.begin(), inputs.end(), [&](AttentionInput i) { return node.input(i) != nullptr; });
}

}  // namespace

void narrow_caches(Graph& graph) {
  graph.for_each_node([](Node& node) {
    if (!node.is("Attention", "ai.attune")) return;
    if (node.input(kAttentionPastKey)) {
      take_narrow(node, kAttentionPastKey, kAttentionPastValue);
    } else if (!projects_memory(node)) {
      take_narrow(node, kAttentionKey, kAttentionValue);
    }
  });
  graph.erase_unused();
}

void narrow_memory(Graph& graph, Node& node, DataType type) {
  if (type == DataType::kUndefined || node.input(kAttentionPastKey) || node.output(kAttentionPresentKey) ||
      node.output(kAttentionPresentValue) || projects_memory(node))
    return;
  for (const auto input : {kAttentionKey, kAttentionValue})
    if (!node.input(input) || node.input(input)->element_type() != DataType::kFloat) return;
  for (const auto input : {kAttentionKey, kAttentionValue}) {
    Value* wide = node.input(input);
    Node* cast = graph.insert_node(&node, "", "Cast", {wide}, 1, {{"to", static_cast<int64_t>(type)}});
    ValueType narrow = wide->type();
    narrow.tensor.element = type;
    cast->output()->set_type(std::move(narrow));
    node.set_input(input, cast->output());
  }
}

}  // namespace attune
