#include "convert/token_flow.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "graph/error.h"
#include "ops/support/attention_inputs.h"
#include "ops/support/attention_parts.h"

namespace attune {
namespace {

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

}  // namespace

void refuse_cache(const Node& node, const std::string& reason) {
  throw Error(Error::Kind::kUnsupported, fmt::format("a cache can't be added: {}: {}", node.label(), reason));
}

void refuse_cache(const std::string& reason) {
  throw Error(Error::Kind::kUnsupported, "a cache can't be added: " + reason);
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

TokenFlow::TokenFlow(const Model& model, const Inference& inference, Value* tokens)
    : graph_(*model.graph), inference_(inference), length_(tokens->tensor_type().dim(1)) {
  if (length_.as_symbol().empty()) refuse_cache("the number of tokens is not dynamic");
  for (const Value* v : graph_.inputs()) {
    if (v == tokens) continue;
    for (int axis = 0; axis < v->tensor_type().rank(); ++axis)
      if (depends_on_length(v->tensor_type().dim(axis)))
        refuse_cache(fmt::format("input '{}' has the length of the tokens, too", v->name()));
  }
  timed_.insert(tokens);
  for (Node* n : graph_.topological_order()) visit(*n);
  for (const Value* v : graph_.outputs())
    if (timed_.contains(v) && axis_of(*v) < 0)
      refuse_cache(fmt::format("output '{}' has no axis of tokens", v->name()));
}

int TokenFlow::axis_of(const Value& v) const {
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

int TokenFlow::axis_from_end(const Value& v) const {
  const int axis = axis_of(v);
  return axis < 0 ? 0 : axis - v.tensor_type().rank();
}

void TokenFlow::visit(Node& n) {
  bool timed = false, sized = false;
  for (const Value* v : n.inputs()) {
    timed = timed || (v && is_timed(*v));
    sized = sized || (v && is_size(*v));
  }
  if (!n.subgraphs().empty()) {
    for (const Graph* body : n.subgraphs())
      for (const Value* v : body->captured()) timed = timed || is_timed(*v) || is_size(*v);
    if (timed || sized) refuse_cache(n, "its bodies are not looked into");
  }
  if (timed && n.is("Shape")) {
    sizes_.insert(n.output());
  } else if (timed || sized) {
    visit_dependent(n, timed);
  }
}

void TokenFlow::visit_dependent(Node& n, bool timed) {
  if (!timed && all_contents_known(n)) return add(n, sizes_);
  if (n.is("Range")) return visit_range(n);
  if (n.is("Slice") && !timed) return visit_slice(n);
  if (n.is("RelativePositionBias", "ai.attune")) return visit_bias(n);
  if (n.is("PositionEmbedding", "ai.attune")) return visit_embedding(n);
  if (is_attention(n)) return visit_attention(n);
  for (size_t i = 0; i < n.inputs().size(); ++i)
    if (n.input(i) && is_size(*n.input(i)) && !((n.is("Reshape") || n.is("Expand") || n.is("Tile")) && i == 1) &&
        !n.is("ConstantOfShape"))
      refuse_cache(n, "computes with the number of tokens");
  if (!treats_tokens_alone(n)) refuse_cache(n, "doesn't treat each token by itself");
  add(n, timed_);
  for (size_t i = 0; i < n.output_count(); ++i)
    if (n.output(i) && axis_of(*n.output(i)) < 0) refuse_cache(n, "its result has no axis of tokens that can be told");
}

void TokenFlow::add(const Node& n, std::unordered_set<const Value*>& set) {
  for (size_t i = 0; i < n.output_count(); ++i)
    if (n.output(i)) set.insert(n.output(i));
}

bool TokenFlow::all_contents_known(const Node& n) const {
  for (size_t i = 0; i < n.output_count(); ++i)
    if (n.output(i) && !inference_.contents(n.output(i))) return false;
  return true;
}

void TokenFlow::visit_range(Node& n) {
  const auto start = inference_.integers(n.input(0)), end = inference_.integers(n.input(1)),
             step = inference_.integers(n.input(2));
  const bool counts =
      start && end && step && start->at(0).constant() && step->at(0).is(1) && end->at(0) - start->at(0) == length_;
  if (!counts) refuse_cache(n, "counts something else than the tokens");
  ranges_.push_back(&n);
  timed_.insert(n.output());
}

void TokenFlow::visit_slice(Node& n) {
  const auto start = inference_.integers(n.input(1)), end = inference_.integers(n.input(2));
  const bool rows = n.input(0)->constant() && start && end && start->size() == 1 && start->at(0).is(0) &&
                    end->at(0) == length_ &&
                    (!n.input(4) || inference_.constant_integers(n.input(4)) == std::vector<int64_t>{1});
  if (!rows) refuse_cache(n, "takes something else than the first rows of a table, one for each token");
  slices_.push_back(&n);
  timed_.insert(n.output());
}

void TokenFlow::visit_bias(Node& n) {
  const auto queries = inference_.integers(n.input(1)), keys = inference_.integers(n.input(2));
  if (n.input(3) || !queries || !keys || !(queries->at(0) == length_) || !(keys->at(0) == length_))
    refuse_cache(n, "is not a bias between the tokens");
  biases_.push_back(&n);
}

void TokenFlow::visit_embedding(Node& n) {
  if (n.input(2)) refuse_cache(n, "its positions don't start at the first token");
  if (n.input(3)) refuse_cache(n, "its positions leave out padding, which earlier steps would have to count");
  if (axis_from_end(*n.input(0)) != -2) refuse_cache(n, "its states have no axis of tokens");
  embeddings_.push_back(&n);
  timed_.insert(n.output());
}

bool TokenFlow::is_bias(const Value& v) const {
  return v.producer() && std::find(biases_.begin(), biases_.end(), v.producer()) != biases_.end();
}

void TokenFlow::visit_attention(Node& n) {
  if (!n.input(kAttentionQuery) || axis_of(*n.input(kAttentionQuery)) < 0)
    refuse_cache(n, "its queries have no axis of tokens");
  for (const AttentionInput i : {kAttentionPastKey, kAttentionQueryPosition, kAttentionPosition, kAttentionKeyLengths})
    if (n.input(i) && (i == kAttentionPastKey || is_timed(*n.input(i)) || is_size(*n.input(i))))
      refuse_cache(n, "has a past or positions already");
  const Value* mask = n.input(kAttentionMask);
  const Value* key = n.input(kAttentionKey) ? n.input(kAttentionKey) : n.input(kAttentionQuery);
  const Value* value = n.input(kAttentionValue) ? n.input(kAttentionValue) : key;
  const bool self = is_timed(*key);
  if (self != is_timed(*value)) refuse_cache(n, "its keys and values are not of one sequence");
  if (self) {
    if (n.attr_int("causal", 0) == 0) refuse_cache(n, "is not proven to be causal: a token may see later ones");
    if (mask && !is_bias(*mask)) refuse_cache(n, "its mask over the tokens is not causality alone");
    self_.push_back(&n);
  } else {
    if (n.attr_int("causal", 0) != 0) refuse_cache(n, "is causal over the source");
    if (mask && (is_timed(*mask) || is_bias(*mask) || !length_free(*mask)))
      refuse_cache(n, "its mask over the source depends on the tokens");
    cross_.push_back(&n);
  }
  timed_.insert(n.output(kAttentionContext));
  for (size_t i = 1; i < n.output_count(); ++i)
    if (const Value* v = n.output(i); v && self && i != kAttentionWeights && v->is_graph_output()) {
      refuse_cache(fmt::format("it gives what the next step needs already, as output '{}'", v->name()));
    } else if (v && (!v->uses().empty() || (self && v->is_graph_output()))) {
      refuse_cache(n, "its weights or keys are used");
    }
}

bool TokenFlow::length_free(const Value& v) const {
  for (int axis = 0; axis < v.tensor_type().rank(); ++axis)
    if (depends_on_length(v.tensor_type().dim(axis))) return false;
  return v.tensor_type().has_rank();
}

bool TokenFlow::treats_tokens_alone(const Node& n) const {
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

bool TokenFlow::aligned(const Node& n, size_t count) const {
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

}  // namespace attune
