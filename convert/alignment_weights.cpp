#include "convert/alignment_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "graph/error.h"
#include "ops/support/attention_inputs.h"

namespace attune {
namespace {

[[noreturn]] void invalid(std::string message) { throw Error(Error::Kind::kInvalidArgument, std::move(message)); }

// An encoder, whose keys depend on no tokens either, has no tokens at all.
bool has_tokens(const Graph& graph) {
  return std::any_of(graph.inputs().begin(), graph.inputs().end(),
                     [](const Value* v) { return is_integer(v->element_type()) && v->tensor_type().rank() == 2; });
}

// The heads `wanted` of output `index` of the graph, whose second axis are all of `count` heads.
void keep_heads(Graph& graph, size_t index, const std::vector<int64_t>& wanted) {
  Value* all = graph.outputs()[index];
  const std::string name(all->name());
  Value* heads = graph.add_constant(
      Tensor::from<int64_t>({static_cast<int64_t>(wanted.size())}, std::span<const int64_t>(wanted)));
  Node* gather = graph.add_node("", "Gather", {all, heads}, 1, {{"axis", int64_t{1}}});
  gather->output()->set_type(ValueType::of(all->element_type()));
  all->set_name({});
  gather->output()->set_name(name);
  graph.set_output(index, gather->output());
}

}  // namespace

WeightsRequest weights_request(const std::vector<std::string>& parts) {
  WeightsRequest r;
  for (const std::string& part : parts) {
    const auto numbers = layer_and_head(part);
    if (part == "all") {
      r.all = true;
    } else if (part == "configured") {
      r.configured = true;
    } else if (!numbers) {
      invalid(fmt::format("weights '{}': expected all, configured, a layer (2) or a layer and head (0.3)", part));
    } else if (numbers->size() == 1) {
      r.heads.layers.push_back(numbers->front());
    } else {
      r.heads.pairs.emplace_back(numbers->front(), numbers->back());
    }
  }
  if ((r.all ? 1 : 0) + (r.configured ? 1 : 0) + (r.heads.layers.empty() ? 0 : 1) + (r.heads.pairs.empty() ? 0 : 1) > 1)
    invalid("weights: expected one of all, configured, layers, or layers with heads, not several of these");
  return r;
}

std::vector<std::string> add_weights(Model& model, const HeadSelection& selection) {
  Graph& graph = *model.graph;
  if (!has_tokens(graph)) return {};
  TapOptions options;
  options.each_head = true;
  options.cross = selection;
  const AttentionTaps taps = tap_attention(graph, options);
  std::vector<std::string> names, listed;
  for (const AttentionTap& tap : taps.taps) {
    bool selected = false;
    std::vector<int64_t> heads = selection.heads_of(tap.layer, taps.cross_layers, selected);
    for (const int64_t head : heads)
      if (head < 0 || head >= static_cast<int64_t>(tap.heads))
        invalid(fmt::format("weights of layer {}, head {}: the layer has {} heads, counted from 0", tap.layer, head,
                            tap.heads));
    if (tap.averaged) invalid(fmt::format("weights of layer {}: the model gives their mean only", tap.layer));
    if (!heads.empty()) keep_heads(graph, tap.weights, heads);
    for (size_t head = 0; heads.empty() && head < tap.heads; ++head)
      listed.push_back(fmt::format("[{}, {}]", tap.layer, head));
    for (const int64_t head : heads) listed.push_back(fmt::format("[{}, {}]", tap.layer, head));
    names.emplace_back(graph.outputs()[tap.weights]->name());
  }
  if (!names.empty()) model.metadata["attune.alignment_heads"] = fmt::format("[{}]", fmt::join(listed, ", "));
  return names;
}

}  // namespace attune
