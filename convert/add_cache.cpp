#include "convert/add_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "convert/token_flow.h"
#include "ops/support/attention_inputs.h"
#include "ops/support/attention_parts.h"

namespace attune {
namespace {

struct Layer {
  Node *self, *cross;
};

// Decoders take turns: attention to the tokens, then to the source.
std::vector<Layer> layers_of(const TokenFlow& flow) {
  const auto &self = flow.self_attentions(), &cross = flow.cross_attentions();
  if (self.empty() || self.size() != cross.size())
    refuse_cache(fmt::format("it has {} attentions to its tokens and {} to a source", self.size(), cross.size()));
  std::vector<Layer> layers;
  for (size_t i = 0; i < self.size(); ++i) layers.push_back({self[i], cross[i]});
  return layers;
}

// (batch, heads, length, width) of the keys or values that a node caches.
ValueType cache_type(const Node& n, bool of_values, const Dim& batch, const std::string& length) {
  const AttentionInput states = of_values && n.input(kAttentionValue) ? kAttentionValue
                                : n.input(kAttentionKey)              ? kAttentionKey
                                                                      : kAttentionQuery;
  const Value* weight = n.input(of_values ? kAttentionValueWeight : kAttentionKeyWeight);
  const TensorType& type = n.input(states)->tensor_type();
  int64_t heads = n.attr_int("num_kv_heads", n.attr_int("num_heads", 1));
  Dim width;
  if (type.rank() == 4) {
    heads = type.dim(1).constant().value_or(heads);
    width = type.dim(3);
  } else {
    const Dim all = weight ? weight->tensor_type().dim(1) : type.dim(2);
    if (all.constant()) width = Dim(*all.constant() / heads);
  }
  if (!width.constant()) refuse_cache(n, "the width of its heads is not known");
  return ValueType::of(n.input(kAttentionQuery)->element_type(), Dims{batch, heads, Dim::symbol(length), width});
}

void give_output(Graph& graph, Node& n, AttentionOutput i, const std::string& name) {
  while (n.output_count() <= i) n.add_output();
  n.output(i)->set_name(name);
  n.output(i)->set_type(ValueType::of(n.input(kAttentionQuery)->element_type()));
  graph.add_output(n.output(i));
}

class Editor {
 public:
  explicit Editor(const Model& model) : model_(model) { model_.graph = model.graph->clone(); }

  Model first() {
    const Analysis a(model_);
    for (size_t i = 0; i < a.layers.size(); ++i) {
      give_presents(*a.layers[i].self, i, "decoder");
      give_presents(*a.layers[i].cross, i, "encoder");
    }
    return finish();
  }

  Model next() {
    const Analysis a(model_);
    Graph& graph = *model_.graph;
    const Dim batch = a.tokens->tensor_type().dim(0);
    for (size_t i = 0; i < a.layers.size(); ++i) {
      take_past(*a.layers[i].self, i, batch);
      give_presents(*a.layers[i].self, i, "decoder");
      take_source(*a.layers[i].cross, i, batch);
    }
    count_from_past(a);
    graph.erase_unused();
    const std::vector<Value*> inputs(graph.inputs().begin(), graph.inputs().end());
    for (Value* v : inputs)
      if (v->uses().empty() && !v->is_graph_output()) graph.remove_input(v);
    return finish();
  }

 private:
  struct Analysis {
    explicit Analysis(const Model& model)
        : inference(model),
          tokens(tokens_of(*model.graph)),
          flow(model, inference, checked(tokens)),
          layers(layers_of(flow)) {}
    static Value* checked(Value* tokens) {
      if (!tokens) refuse_cache("it has no input, or several, that could be the tokens");
      return tokens;
    }
    Inference inference;
    Value* tokens;
    TokenFlow flow;
    std::vector<Layer> layers;
  };

  void give_presents(Node& n, size_t layer, const char* side) {
    give_output(*model_.graph, n, kAttentionPresentKey, fmt::format("present.{}.{}.key", layer, side));
    give_output(*model_.graph, n, kAttentionPresentValue, fmt::format("present.{}.{}.value", layer, side));
  }

  Value* cache_input(const Node& n, size_t layer, const char* side, bool of_values, const Dim& batch) {
    const bool decoder = std::string_view(side) == "decoder";
    return model_.graph->add_input(
        fmt::format("past_key_values.{}.{}.{}", layer, side, of_values ? "value" : "key"),
        cache_type(n, of_values, batch, decoder ? "past_decoder_sequence_length" : "encoder_sequence_length_out"));
  }

  void take_past(Node& n, size_t layer, const Dim& batch) {
    Value* key = cache_input(n, layer, "decoder", false, batch);
    Value* value = cache_input(n, layer, "decoder", true, batch);
    n.set_input(kAttentionPastKey, key);
    n.set_input(kAttentionPastValue, value);
    if (layer == 0) past_ = key;
  }

  void take_source(Node& n, size_t layer, const Dim& batch) {
    Value* key = cache_input(n, layer, "encoder", false, batch);
    Value* value = cache_input(n, layer, "encoder", true, batch);
    n.set_input(kAttentionKey, key);
    n.set_input(kAttentionValue, value);
    for (const AttentionInput i : {kAttentionKeyWeight, kAttentionValueWeight, kAttentionKeyBias, kAttentionValueBias})
      if (n.input(i)) n.set_input(i, nullptr);
    n.trim_inputs();
  }

  // Positions start where the past ends.
  void count_from_past(const Analysis& a) {
    if (a.flow.ranges().empty() && a.flow.slices().empty() && a.flow.biases().empty() && a.flow.embeddings().empty())
      return;
    Graph& graph = *model_.graph;
    Value* length =
        graph
            .add_node("", "Gather",
                      {graph.add_node("", "Shape", {past_})->output(), graph.add_constant(Tensor::scalar(int64_t{2}))},
                      1, {{"axis", int64_t{0}}})
            ->output();
    for (Node* range : a.flow.ranges()) {
      Value* counted = range->output();
      Value* offset = length;
      if (counted->element_type() != DataType::kInt64)
        offset =
            graph.add_node("", "Cast", {length}, 1, {{"to", static_cast<int64_t>(counted->element_type())}})->output();
      Value* shifted = graph.add_node("", "Add", {counted, offset})->output();
      const std::vector<Use> uses(counted->uses().begin(), counted->uses().end());
      for (const Use& u : uses)
        if (u.node != shifted->producer()) u.node->set_input(u.index, shifted);
    }
    for (Node* slice : a.flow.slices())
      for (const size_t i : {1, 2}) slice->set_input(i, graph.add_node("", "Add", {slice->input(i), length})->output());
    for (Node* embedding : a.flow.embeddings()) embedding->set_input(2, length);
    for (Node* bias : a.flow.biases()) {
      Value* keys = graph.add_node("", "Add", {bias->input(2), length})->output();
      bias->set_input(2, keys);
      bias->set_input(3, length);
    }
  }

  Model finish() {
    Graph& graph = *model_.graph;
    graph.sort();
    graph.verify();
    return std::move(model_);
  }

  Model model_;
  Value* past_ = nullptr;
};

// Whether the caller gives `v`, maybe in another type or order. Keys of another part of the sequence are computed.
bool is_given(const Value* v) {
  const auto passes_on = [](const Node& n) {
    return n.is("Cast") || n.is("Gather") || n.is("Identity") || n.is("Reshape") || n.is("Transpose");
  };
  while (v && v->producer() && passes_on(*v->producer())) v = v->producer()->input(0);
  return v && v->is_graph_input();
}

}  // namespace

bool lacks_cache(const Model& model) {
  bool past = false;
  size_t attentions = 0;
  model.graph->for_each_node([&](const Node& n) {
    if (!is_attention(n)) return;
    ++attentions;
    past = past || is_given(n.input(kAttentionPastKey));
  });
  const bool states = std::any_of(model.graph->inputs().begin(), model.graph->inputs().end(), [](const Value* v) {
    return is_float(v->element_type()) && v->tensor_type().rank() == 3;
  });
  return attentions > 1 && !past && states && tokens_of(*model.graph);
}

CachedDecoder add_cache(const Model& model) {
  CachedDecoder out;
  out.first = Editor(model).first();
  out.next = Editor(model).next();
  for (const Value* v : out.next.graph->inputs()) out.layers += v->name().ends_with(".decoder.key") ? 1 : 0;
  return out;
}

}  // namespace attune
