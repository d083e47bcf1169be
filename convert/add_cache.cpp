#include "convert/add_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "graph/error.h"
#include "ops/infer/infer.h"
#include "ops/support/attention_inputs.h"
#include "ops/support/attention_parts.h"

namespace attune {
namespace {

[[noreturn]] void refuse(const Node& node, const std::string& reason) {
  throw Error(Error::Kind::kUnsupported, fmt::format("a cache can't be added: {}: {}", node.label(), reason));
}

[[noreturn]] void refuse(const std::string& reason) {
  throw Error(Error::Kind::kUnsupported, "a cache can't be added: " + reason);
}

// Integers that look rows of a table of numbers, maybe quantised ones, up.
bool looks_up(const Value& v, int depth = 0) {
  for (const Use& u : v.uses()) {
    const Value* table = u.node->input(0);
    if (!table) continue;
    const bool numbers = is_float(table->element_type()) || (table->constant() && table->tensor_type().rank() == 2);
    if (u.node->is("Gather") && u.index == 1 && numbers) return true;
    const bool passes = u.node->is("Cast") || u.node->is("Reshape") || u.node->is("Identity");
    if (passes && u.index == 0 && depth < 4 && looks_up(*u.node->output(), depth + 1)) return true;
  }
  return false;
}

Value* tokens_of(const Graph& graph) {
  Value* found = nullptr;
  for (Value* v : graph.inputs()) {
    if (!is_integer(v->element_type()) || v->tensor_type().rank() != 2 || !looks_up(*v)) continue;
    if (found) return nullptr;
    found = v;
  }
  return found;
}

bool is_elementwise(const Node& n) {
  static const std::unordered_set<std::string_view> kTypes = {
      "Add",  "Sub",   "Mul",        "Div",      "Pow", "Sqrt", "Tanh",     "Erf",   "Sigmoid",   "Relu",     "Gelu",
      "Cast", "Where", "Neg",        "Identity", "Exp", "Log",  "Abs",      "Equal", "Greater",   "Less",     "Not",
      "And",  "Or",    "Reciprocal", "Clip",     "Min", "Max",  "Softplus", "Elu",   "LeakyRelu", "HardSwish"};
  // With a vector as bias, at most.
  static const std::unordered_set<std::string_view> kMicrosoftTypes = {"BiasGelu", "FastGelu", "Gelu", "QuickGelu"};
  return (n.domain().empty() && kTypes.contains(n.type())) ||
         (n.domain() == "com.microsoft" && kMicrosoftTypes.contains(n.type()));
}

// How a decoder treats its tokens: each value either has an axis of time, is a number computed from the length, or has
// nothing to do with it.
class TokenFlow {
 public:
  TokenFlow(const Model& model, const Inference& inference, Value* tokens)
      : graph_(*model.graph), inference_(inference), length_(tokens->tensor_type().dim(1)) {
    if (length_.as_symbol().empty()) refuse("the number of tokens is not dynamic");
    for (const Value* v : graph_.inputs()) {
      if (v == tokens) continue;
      for (int axis = 0; axis < v->tensor_type().rank(); ++axis)
        if (depends_on_length(v->tensor_type().dim(axis)))
          refuse(fmt::format("input '{}' has the length of the tokens, too", v->name()));
    }
    timed_.insert(tokens);
    for (Node* n : graph_.topological_order()) visit(*n);
    for (const Value* v : graph_.outputs())
      if (timed_.contains(v) && axis_of(*v) < 0) refuse(fmt::format("output '{}' has no axis of tokens", v->name()));
  }

  const std::vector<Node*>& self_attentions() const { return self_; }
  const std::vector<Node*>& cross_attentions() const { return cross_; }
  const std::vector<Node*>& ranges() const { return ranges_; }          // positions of tokens
  const std::vector<Node*>& slices() const { return slices_; }          // rows of tables, one for each token
  const std::vector<Node*>& biases() const { return biases_; }          // RelativePositionBias between tokens
  const std::vector<Node*>& embeddings() const { return embeddings_; }  // PositionEmbedding of tokens

 private:
  bool depends_on_length(const Dim& d) const { return d.known() && d.symbols().contains(length_.as_symbol()); }

  // The only axis that has the length of the tokens; negative if there is none, or several, or it is hidden in a size.
  int axis_of(const Value& v) const {
    int found = -1;
    for (int axis = 0; axis < v.tensor_type().rank(); ++axis) {
      const Dim d = v.tensor_type().dim(axis);
      if ((d == length_ || d.clips(length_)) && found < 0) {
        found = axis;
      } else if (!d.known() || depends_on_length(d)) {
        return -1;
      }
    }
    return found;
  }
  // The same, counted from the end.
  int axis_from_end(const Value& v) const {
    const int axis = axis_of(v);
    return axis < 0 ? 0 : axis - v.tensor_type().rank();
  }

  bool is_size(const Value& v) const { return sizes_.contains(&v); }
  bool is_timed(const Value& v) const { return timed_.contains(&v); }

  void visit(Node& n) {
    bool timed = false, sized = false;
    for (const Value* v : n.inputs()) {
      timed = timed || (v && is_timed(*v));
      sized = sized || (v && is_size(*v));
    }
    if (!n.subgraphs().empty()) {
      for (const Graph* body : n.subgraphs())
        for (const Value* v : body->captured()) timed = timed || is_timed(*v) || is_size(*v);
      if (timed || sized) refuse(n, "its bodies are not looked into");
    }
    if (timed && n.is("Shape")) {
      sizes_.insert(n.output());
    } else if (timed || sized) {
      visit_dependent(n, timed);
    }
  }

  void visit_dependent(Node& n, bool timed) {
    if (!timed && all_contents_known(n)) return add(n, sizes_);
    if (n.is("Range")) return visit_range(n);
    if (n.is("Slice") && !timed) return visit_slice(n);
    if (n.is("RelativePositionBias", "ai.attune")) return visit_bias(n);
    if (n.is("PositionEmbedding", "ai.attune")) return visit_embedding(n);
    if (is_attention(n)) return visit_attention(n);
    for (size_t i = 0; i < n.inputs().size(); ++i)
      if (n.input(i) && is_size(*n.input(i)) && !((n.is("Reshape") || n.is("Expand") || n.is("Tile")) && i == 1) &&
          !n.is("ConstantOfShape"))
        refuse(n, "computes with the number of tokens");
    if (!treats_tokens_alone(n)) refuse(n, "doesn't treat each token by itself");
    add(n, timed_);
    for (size_t i = 0; i < n.output_count(); ++i)
      if (n.output(i) && axis_of(*n.output(i)) < 0) refuse(n, "its result has no axis of tokens that can be told");
  }

  static void add(const Node& n, std::unordered_set<const Value*>& set) {
    for (size_t i = 0; i < n.output_count(); ++i)
      if (n.output(i)) set.insert(n.output(i));
  }

  bool all_contents_known(const Node& n) const {
    for (size_t i = 0; i < n.output_count(); ++i)
      if (n.output(i) && !inference_.contents(n.output(i))) return false;
    return true;
  }

  // 0, 1, ... length - 1
  void visit_range(Node& n) {
    const auto start = inference_.integers(n.input(0)), end = inference_.integers(n.input(1)),
               step = inference_.integers(n.input(2));
    const bool counts =
        start && end && step && start->at(0).constant() && step->at(0).is(1) && end->at(0) - start->at(0) == length_;
    if (!counts) refuse(n, "counts something else than the tokens");
    ranges_.push_back(&n);
    timed_.insert(n.output());
  }

  // The first rows of a table, one for each token.
  void visit_slice(Node& n) {
    const auto start = inference_.integers(n.input(1)), end = inference_.integers(n.input(2));
    const bool rows = n.input(0)->constant() && start && end && start->size() == 1 && start->at(0).is(0) &&
                      end->at(0) == length_ &&
                      (!n.input(4) || inference_.constant_integers(n.input(4)) == std::vector<int64_t>{1});
    if (!rows) refuse(n, "takes something else than the first rows of a table, one for each token");
    slices_.push_back(&n);
    timed_.insert(n.output());
  }

  void visit_bias(Node& n) {
    const auto queries = inference_.integers(n.input(1)), keys = inference_.integers(n.input(2));
    if (n.input(3) || !queries || !keys || !(queries->at(0) == length_) || !(keys->at(0) == length_))
      refuse(n, "is not a bias between the tokens");
    biases_.push_back(&n);
  }

  void visit_embedding(Node& n) {
    if (n.input(2)) refuse(n, "its positions don't start at the first token");
    if (n.input(3)) refuse(n, "its positions leave out padding, which earlier steps would have to count");
    if (axis_from_end(*n.input(0)) != -2) refuse(n, "its states have no axis of tokens");
    embeddings_.push_back(&n);
    timed_.insert(n.output());
  }

  bool is_bias(const Value& v) const {
    return v.producer() && std::find(biases_.begin(), biases_.end(), v.producer()) != biases_.end();
  }

  void visit_attention(Node& n) {
    if (!n.input(kAttentionQuery) || axis_of(*n.input(kAttentionQuery)) < 0)
      refuse(n, "its queries have no axis of tokens");
    for (const AttentionInput i :
         {kAttentionPastKey, kAttentionQueryPosition, kAttentionPosition, kAttentionKeyLengths})
      if (n.input(i) && (i == kAttentionPastKey || is_timed(*n.input(i)) || is_size(*n.input(i))))
        refuse(n, "has a past or positions already");
    const Value* mask = n.input(kAttentionMask);
    const Value* key = n.input(kAttentionKey) ? n.input(kAttentionKey) : n.input(kAttentionQuery);
    const Value* value = n.input(kAttentionValue) ? n.input(kAttentionValue) : key;
    const bool self = is_timed(*key);
    if (self != is_timed(*value)) refuse(n, "its keys and values are not of one sequence");
    if (self) {
      if (n.attr_int("causal", 0) == 0) refuse(n, "is not proven to be causal: a token may see later ones");
      if (mask && !is_bias(*mask)) refuse(n, "its mask over the tokens is not causality alone");
      self_.push_back(&n);
    } else {
      if (n.attr_int("causal", 0) != 0) refuse(n, "is causal over the source");
      if (mask && (is_timed(*mask) || is_bias(*mask) || !length_free(*mask)))
        refuse(n, "its mask over the source depends on the tokens");
      cross_.push_back(&n);
    }
    timed_.insert(n.output(kAttentionContext));
    for (size_t i = 1; i < n.output_count(); ++i)
      if (n.output(i) && (!n.output(i)->uses().empty() || (self && n.output(i)->is_graph_output())))
        refuse(n, "its weights or keys are used");
  }

  bool length_free(const Value& v) const {
    for (int axis = 0; axis < v.tensor_type().rank(); ++axis)
      if (depends_on_length(v.tensor_type().dim(axis))) return false;
    return v.tensor_type().has_rank();
  }

  bool treats_tokens_alone(const Node& n) const {
    const Value& x = *n.input(0);
    const bool first_only =
        std::all_of(n.inputs().begin() + 1, n.inputs().end(), [&](const Value* v) { return !v || !is_timed(*v); });
    if (is_elementwise(n)) return aligned(n);
    if (n.is("ResidualNormalization", "ai.attune"))
      return aligned(n, 2) && n.attr_int("axis", -1) == -1 && axis_from_end(x) < -1;
    if (n.is("SkipLayerNormalization", "com.microsoft") || n.is("SkipSimplifiedLayerNormalization", "com.microsoft"))
      return aligned(n, 2) && axis_from_end(x) < -1;
    if (n.is("Linear", "ai.attune")) {
      const Value* residual = n.input(3);
      return axis_from_end(x) < -1 && !is_timed(*n.input(1)) &&
             (!residual || axis_from_end(*residual) == axis_from_end(x));
    }
    if (n.is("MatMul") || n.is("Gemm")) return first_only && axis_from_end(x) < -1 && n.attr_int("transA", 0) == 0;
    if (n.is("LayerNormalization") || n.is("Softmax") || n.is("LogSoftmax") || n.is("RMSNormalization")) {
      const int64_t axis = n.attr_int("axis", -1);
      return first_only && axis_from_end(x) < -1 && (axis == -1 || axis == x.tensor_type().rank() - 1);
    }
    if (n.is("Gather")) return !is_timed(x) && n.input(1) && is_timed(*n.input(1)) && n.attr_int("axis", 0) == 0;
    return first_only && (n.is("Transpose") || n.is("Unsqueeze") || n.is("Squeeze") || n.is("Reshape") ||
                          n.is("Expand") || n.is("Tile") || n.is("ConstantOfShape"));
  }

  // All operands that have an axis of tokens have it at the same place from the end; `count`: operands looked at.
  bool aligned(const Node& n, size_t count = 99) const {
    int axis = 0;
    for (size_t i = 0; i < std::min(count, n.inputs().size()); ++i) {
      const Value* v = n.input(i);
      if (!v || !is_timed(*v)) continue;
      const int own = axis_from_end(*v);
      if (own == 0 || (axis != 0 && own != axis)) return false;
      axis = own;
    }
    return axis != 0;
  }

  const Graph& graph_;
  const Inference& inference_;
  Dim length_;
  std::unordered_set<const Value*> timed_, sizes_;
  std::vector<Node*> self_, cross_, ranges_, slices_, biases_, embeddings_;
};

struct Layer {
  Node *self, *cross;
};

// Decoders take turns: attention to the tokens, then to the source.
std::vector<Layer> layers_of(const TokenFlow& flow) {
  const auto &self = flow.self_attentions(), &cross = flow.cross_attentions();
  if (self.empty() || self.size() != cross.size())
    refuse(fmt::format("it has {} attentions to its tokens and {} to a source", self.size(), cross.size()));
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
  if (!width.constant()) refuse(n, "the width of its heads is not known");
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
      if (!tokens) refuse("it has no input, or several, that could be the tokens");
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

}  // namespace

namespace {

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
