// Attention weights out of models that don't give them: those of ai.attune Attention nodes become outputs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace attune {

enum class AttentionKind {
  kSelf,
  kCross  // its keys don't depend on the tokens that the model has given so far
};

// "2" is {2}, "0.3" (a layer and its head) is {0, 3}; nothing if `text` is neither.
std::optional<std::vector<int64_t>> layer_and_head(std::string_view text);

// Layers of one kind of attention, and heads in them, both from 0.
struct HeadSelection {
  std::vector<int64_t> layers;  // negative: from the last one, -1; empty: all
  std::vector<int64_t> heads;   // of each of these layers; empty: all
  // (layer, head); if there are any, `layers` and `heads` aren't looked at.
  std::vector<std::pair<int64_t, int64_t>> pairs;

  bool empty() const { return layers.empty() && heads.empty() && pairs.empty(); }
  // The selected heads of layer `layer` out of `layers`; nothing: all. `selected` says whether there are any.
  std::vector<int64_t> heads_of(size_t layer, size_t layer_count, bool& selected) const;
  // Throws Error(kInvalidArgument) for a layer that isn't there.
  void check(size_t layer_count) const;
};

// A node whose weights are outputs of its graph.
struct AttentionTap {
  std::string node;  // its label
  AttentionKind kind = AttentionKind::kSelf;
  size_t layer = 0;        // among those of its kind, in the order of the graph
  size_t heads = 1;        // where it can be told
  bool averaged = false;   // the weights are means over the heads
  size_t weights = 0;      // output of the graph: (batch, heads or 1, queries, keys)
  size_t context = 0;      // output of the graph, if contexts are asked for: (batch, queries, heads x width)
  Tensor projection = {};  // what the context is multiplied with, (heads x width, n), if that is a constant
};

struct AttentionTaps {
  std::vector<AttentionTap> taps;
  size_t cross_layers = 0;   // that could be tapped
  size_t added_outputs = 0;  // the last ones of the graph
};

struct TapOptions {
  bool encoder = false;  // every attention is kSelf
  bool self = false;     // those too
  bool contexts = false;
  bool each_head = false;  // no means over heads even if all heads are selected
  HeadSelection cross;     // which cross-attentions
};

// Adds outputs behind those that it has. The branches of an If must have the same attentions; those of other
// bodies are left alone. Throws Error(kInvalidArgument) for a layer that isn't there.
AttentionTaps tap_attention(Graph& graph, const TapOptions& options);

// One call of an attention while a model runs.
struct AttentionCall {
  const AttentionTap& tap;
  bool encoder = false;
  const Tensor& weights;  // (rows, heads, queries, keys)
  const Tensor& context;
  std::span<const size_t> sources;  // per row the place of its source among the caller's
  const Tensor& source_mask;        // int64 (rows, source length)
};
using AttentionObserver = std::function<void(const AttentionCall&)>;

}  // namespace attune
