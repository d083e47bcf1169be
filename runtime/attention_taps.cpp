#include "runtime/attention_taps.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <unordered_set>

#include "graph/error.h"
#include "ops/support/attention_inputs.h"
#include "ops/support/attention_parts.h"

namespace attune {
namespace {

using Values = std::unordered_set<const Value*>;

// Adds the values that depend on those in `on_tokens`, in nested graphs too.
void add_dependent(const Graph& graph, Values& on_tokens) {
  for (const Node* node : graph.topological_order()) {
    bool depends = false;
    for (const Value* v : node->inputs()) depends = depends || on_tokens.contains(v);
    for (const Graph* body : node->subgraphs()) {
      if (depends)
        for (const Value* v : body->inputs()) on_tokens.insert(v);
      add_dependent(*body, on_tokens);
      for (const Value* v : body->captured()) depends = depends || on_tokens.contains(v);
    }
    for (size_t i = 0; depends && i < node->output_count(); ++i) on_tokens.insert(node->output(i));
  }
}

// An attention, or one that each branch of an If has.
struct Site {
  Node* node;
  AttentionKind kind;
  std::vector<Site> branches;

  const Node& attention() const { return branches.empty() ? *node : branches.front().attention(); }
};

// Weights that somebody uses as they are before the softmax can't serve.
bool can_give_weights(const Node& node) {
  const std::string mode = node.attr_string("weights_output", "normalized");
  return !node.output(kAttentionWeights) || mode == "normalized" || mode == "head_mean";
}

std::vector<Site> find_sites(const Graph& graph, const Values& on_tokens, bool encoder);

std::vector<Site> sites_of_if(Node& node, const Values& on_tokens, bool encoder) {
  std::vector<std::vector<Site>> branches;
  for (const Graph* body : node.subgraphs()) branches.push_back(find_sites(*body, on_tokens, encoder));
  std::vector<Site> out;
  for (size_t i = 0; i < branches.front().size(); ++i) {
    out.push_back({&node, branches.front()[i].kind, {}});
    for (auto& branch : branches) {
      if (branch.size() != branches.front().size() || branch[i].kind != out.back().kind) return {};
      out.back().branches.push_back(std::move(branch[i]));
    }
  }
  return out;
}

std::vector<Site> find_sites(const Graph& graph, const Values& on_tokens, bool encoder) {
  std::vector<Site> out;
  for (Node* node : graph.topological_order()) {
    if (node->is("If")) {
      for (Site& site : sites_of_if(*node, on_tokens, encoder)) out.push_back(std::move(site));
    } else if (is_attention(*node) && can_give_weights(*node)) {
      const Value* key = node->input(kAttentionKey);
      const bool cross = !encoder && key && !on_tokens.contains(key);
      out.push_back({node, cross ? AttentionKind::kCross : AttentionKind::kSelf, {}});
    }
  }
  return out;
}

void ask_for_weights(Node& node, bool averaged) {
  if (node.output(kAttentionWeights)) return;
  const size_t before = node.output_count();
  while (node.output_count() <= kAttentionWeights) node.add_output();
  for (size_t i = before; i < kAttentionWeights; ++i) node.remove_output(i);
  node.set("weights_output", std::string(averaged ? "head_mean" : "normalized"));
  node.output(kAttentionWeights)->set_type(ValueType::of(node.output()->element_type()));
}

// The value of the site's own graph that holds output `output` of its attention.
Value* value_of(const Site& site, size_t output) {
  if (site.branches.empty()) return site.node->output(output);
  ValueType type;
  for (size_t b = 0; b < site.branches.size(); ++b) {
    Value* inner = value_of(site.branches[b], output);
    type = ValueType::of(inner->element_type());
    site.node->subgraphs()[b]->add_output(inner);
  }
  Value* outer = site.node->add_output();
  outer->set_type(std::move(type));
  return outer;
}

// The output of `graph` that gives `value`, which becomes one unless it is.
size_t output_of(Graph& graph, Value* value, const std::string& name) {
  const auto outputs = graph.outputs();
  const auto found = std::find(outputs.begin(), outputs.end(), value);
  if (found != outputs.end()) return static_cast<size_t>(found - outputs.begin());
  if (value->name().empty()) value->set_name(name);
  graph.add_output(value);
  return graph.outputs().size() - 1;
}

size_t heads_of(const Node& node) {
  if (node.has("num_heads")) return static_cast<size_t>(std::max<int64_t>(1, node.attr_int("num_heads", 1)));
  const TensorType& query = node.input(kAttentionQuery)->tensor_type();
  const auto known = query.rank() == 4 && query.dim(1).known() ? query.dim(1).constant() : std::nullopt;
  return static_cast<size_t>(known.value_or(1));
}

// The constant that the context goes into, straight or through a change of its shape.
Tensor projection_of(const Node& node) {
  const Value* context = node.output(kAttentionContext);
  for (int step = 0; context && context->uses().size() == 1 && step < 3; ++step) {
    const Node& user = *context->uses().front().node;
    const bool product = user.is("MatMul") || user.is("Linear", "ai.attune") || user.is("Gemm");
    if (product && context->uses().front().index == 0 && user.input(1)) {
      const Tensor* w = user.input(1)->constant();
      if (w && w->rank() == 2 && is_float(w->type()))
        return user.attr_int(user.is("Gemm") ? "transB" : "transposed", 0) == 0 ? *w : Tensor();
    }
    if (!user.is("Reshape") && !user.is("Transpose") && !user.is("Identity")) break;
    context = user.output();
  }
  return {};
}

void set_weights(const Site& site, bool averaged) {
  if (site.branches.empty()) ask_for_weights(*site.node, averaged);
  for (const Site& branch : site.branches) set_weights(branch, averaged);
}

AttentionTap tap(Graph& graph, const Site& site, size_t layer, bool averaged, bool contexts) {
  const std::string stem = fmt::format("{}_attention.{}", site.kind == AttentionKind::kCross ? "cross" : "self", layer);
  AttentionTap t{site.attention().label(), site.kind, layer, heads_of(site.attention())};
  set_weights(site, averaged);
  t.averaged = site.attention().attr_string("weights_output", "normalized") == "head_mean";
  t.weights = output_of(graph, value_of(site, kAttentionWeights), stem + ".weights");
  if (contexts) {
    t.projection = projection_of(site.attention());
    t.context = output_of(graph, value_of(site, kAttentionContext), stem + ".context");
  }
  return t;
}

}  // namespace

std::optional<std::vector<int64_t>> layer_and_head(std::string_view text) {
  std::vector<int64_t> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (;;) {
    const auto [next, error] = std::from_chars(at, end, numbers.emplace_back());
    if (error != std::errc()) return std::nullopt;
    if (next == end) return numbers;
    if (*next != '.' || numbers.size() == 2) return std::nullopt;
    at = next + 1;
  }
}

std::vector<int64_t> HeadSelection::heads_of(size_t layer, size_t layer_count, bool& selected) const {
  const auto is_layer = [&](int64_t l) {
    return (l < 0 ? l + static_cast<int64_t>(layer_count) : l) == static_cast<int64_t>(layer);
  };
  if (pairs.empty()) {
    selected = layers.empty() || std::any_of(layers.begin(), layers.end(), is_layer);
    return heads;
  }
  std::vector<int64_t> out;
  for (const auto& [l, head] : pairs)
    if (is_layer(l)) out.push_back(head);
  selected = !out.empty();
  return out;
}

void HeadSelection::check(size_t layer_count) const {
  std::vector<int64_t> asked = pairs.empty() ? layers : std::vector<int64_t>();
  for (const auto& [layer, head] : pairs) asked.push_back(layer);
  const auto count = static_cast<int64_t>(layer_count);
  for (const int64_t layer : asked)
    if (layer < -count || layer >= count)
      throw Error(Error::Kind::kInvalidArgument,
                  fmt::format("alignment of layer {}: the decoder has {} layers of cross-attention that give weights, "
                              "counted from 0",
                              layer, layer_count));
}

AttentionTaps tap_attention(Graph& graph, const TapOptions& options) {
  Values on_tokens;
  for (const Value* v : graph.inputs())
    if (is_integer(v->element_type())) on_tokens.insert(v);
  add_dependent(graph, on_tokens);
  const std::vector<Site> sites = find_sites(graph, on_tokens, options.encoder);
  AttentionTaps out;
  for (const Site& site : sites) out.cross_layers += site.kind == AttentionKind::kCross ? 1 : 0;
  if (out.cross_layers > 0) options.cross.check(out.cross_layers);
  const size_t own_outputs = graph.outputs().size();
  size_t self = 0, cross = 0;
  for (const Site& site : sites) {
    const bool is_cross = site.kind == AttentionKind::kCross;
    const size_t layer = is_cross ? cross++ : self++;
    bool selected = options.self;
    std::vector<int64_t> heads;
    if (is_cross) heads = options.cross.heads_of(layer, out.cross_layers, selected);
    if (selected) out.taps.push_back(tap(graph, site, layer, !options.each_head && heads.empty(), options.contexts));
  }
  out.added_outputs = graph.outputs().size() - own_outputs;
  return out;
}

}  // namespace attune
