#include "ops/support/attention_parts.h"

#include <array>
#include <optional>

#include "ops/support/attention_inputs.h"

namespace attune {
namespace {

// The static number of heads of an operand of four dimensions.
std::optional<int64_t> heads_of(const Value* value) {
  if (!value || value->tensor_type().rank() != 4) return std::nullopt;
  return value->tensor_type().dim(1).constant();
}

std::optional<int64_t> kv_heads(const Node& node) {
  if (node.has("num_kv_heads")) return node.attr_int("num_kv_heads", 1);
  for (const auto input : {kAttentionKey, kAttentionValue, kAttentionPastKey, kAttentionPastValue})
    if (node.input(input) && (input == kAttentionPastKey || node.input(input)->tensor_type().rank() == 4))
      return heads_of(node.input(input));
  if (node.has("num_heads")) return node.attr_int("num_heads", 1);
  const Value* query = node.input(kAttentionQuery);
  if (query->tensor_type().rank() == 3) return 1;
  return heads_of(query);
}

struct Projection {
  Value* states;
  Value* weight;  // null: none
  Value* bias;    // null: none
  explicit operator bool() const { return weight || bias; }
};

// (B, T, heads * width) projected and split into (B, heads, T, width), computed before `node`.
Value* project_and_split(Graph& graph, Node& node, const Projection& p, int64_t heads) {
  const TensorType type = p.states->tensor_type();
  const TensorType& last = (p.weight ? p.weight : p.bias)->tensor_type();
  const Dim columns = last.dim(-1);
  const auto add = [&](std::string domain, std::string op, std::vector<Value*> inputs, Dims shape,
                       Attributes attributes = {}) {
    Node* n = graph.insert_node(&node, std::move(domain), std::move(op), std::move(inputs), 1, std::move(attributes));
    n->name = node.name;
    n->output()->set_type(ValueType::of(type.element, std::move(shape)));
    return n->output();
  };
  const Dim batch = type.dim(0), length = type.dim(1);
  Value* projected = nullptr;
  if (p.weight) {
    std::vector<Value*> inputs{p.states, p.weight};
    if (p.bias) inputs.push_back(p.bias);
    projected = add("ai.attune", "Linear", inputs, {batch, length, columns});
  } else {
    projected = add("", "Add", {p.states, p.bias}, {batch, length, columns});
  }
  // The width is written out where it is known: -1 can't be told when there are no positions.
  const auto known = columns.constant();
  const int64_t width = known ? *known / heads : -1;
  const Dim width_dim = known ? Dim(width) : Dim();
  Value* target = graph.add_constant(Tensor::from<int64_t>({4}, {0, 0, heads, width}));
  Value* split = add("", "Reshape", {projected, target}, {batch, length, heads, width_dim});
  return add("", "Transpose", {split}, {batch, heads, length, width_dim}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
}

}  // namespace

bool is_attention(const Node& node) { return node.is("Attention", "ai.attune"); }

bool split_by_fixed_inputs(Graph& graph, Node& node, const std::function<bool(const Value*)>& fixed) {
  Value* const key = node.input(kAttentionKey);
  Value* const value = node.input(kAttentionValue) ? node.input(kAttentionValue) : key;
  const auto known = [&](const Value* v) { return !v || v->constant() || fixed(v); };
  const auto movable = [&](const Projection& p) {
    return p && p.states && fixed(p.states) && known(p.weight) && known(p.bias);
  };
  const Projection keys{key, node.input(kAttentionKeyWeight), node.input(kAttentionKeyBias)};
  const Projection values{value, node.input(kAttentionValueWeight), node.input(kAttentionValueBias)};
  const auto heads = kv_heads(node);
  if (!heads || !(movable(keys) || movable(values))) return false;
  // What is left out stands for another input, which is about to change.
  if (value) node.set_input(kAttentionValue, value);
  const auto take_out = [&](const Projection& p, AttentionInput states, AttentionInput weight, AttentionInput bias) {
    if (!movable(p)) return;
    node.set_input(states, project_and_split(graph, node, p, *heads));
    if (p.weight) node.set_input(weight, nullptr);
    if (p.bias) node.set_input(bias, nullptr);
  };
  take_out(keys, kAttentionKey, kAttentionKeyWeight, kAttentionKeyBias);
  take_out(values, kAttentionValue, kAttentionValueWeight, kAttentionValueBias);
  node.set("num_kv_heads", *heads);
  node.trim_inputs();
  return true;
}

}  // namespace attune
