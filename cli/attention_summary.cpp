#include "cli/attention_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <unordered_set>

namespace attune::cli {
namespace {

bool is_any(const Node& node, std::initializer_list<std::string_view> types) {
  return std::find(types.begin(), types.end(), node.type()) != types.end();
}

std::string name_of(const Value* value) {
  if (!value) return {};
  if (!value->name().empty()) return std::string(value->name());
  return value->producer() ? value->producer()->label() : "unnamed";
}

// Rearranges or converts elements without mixing them.
bool is_view(const Node& n) {
  return is_any(
      n, {"Reshape", "Transpose", "Squeeze", "Unsqueeze", "Cast", "Identity", "Dropout", "Flatten", "Slice", "Split",
          "Gather", "Expand", "Tile", "DynamicQuantizeLinear", "QuantizeLinear", "DequantizeLinear"});
}

bool is_product(const Node& n) {
  return is_any(n, {"MatMul", "FusedMatMul", "Gemm", "MatMulInteger", "Einsum", "QLinearMatMul", "MatMulNBits",
                    "MatMulIntegerToFloat", "DynamicQuantizeMatMul", "TransposeMatMul"});
}

// Constant, or a constant that is only cast, dequantised or rearranged.
bool is_weight(const Value* v) {
  for (int depth = 0; v && depth < 6; ++depth) {
    if (v->constant() || (v->default_value() && !v->is_graph_input())) return true;
    if (!v->producer() || !is_view(*v->producer())) return false;
    v = v->producer()->input(0);
  }
  return false;
}

// Of an elementwise node's operands, the one that carries the data: the other is a constant or has a lower rank.
const Value* data_operand(const Node& n) {
  const Value *a = n.input(0), *b = n.input(1);
  if (!a || !b) return a;
  if (is_weight(a) != is_weight(b)) return is_weight(a) ? b : a;
  const int x = a->tensor_type().rank(), y = b->tensor_type().rank();
  if (x < 0 || y < 0 || x == y) return nullptr;
  return x > y ? a : b;
}

// The name of the graph input that `v` is, at most converted; empty if it isn't one.
std::string cache_name(const Value* v) {
  const auto passes = [](const Node& n) {
    return is_any(n, {"Cast", "Identity"}) || (n.is("Concat") && n.inputs().size() == 1);
  };
  while (v && v->producer() && passes(*v->producer())) v = v->producer()->input(0);
  return v && !v->producer() && !v->constant() ? name_of(v) : std::string();
}

// What is appended to a cache, which is noted; or the only thing that is joined. Null if several are.
const Value* appended(const Node& concat, AttentionFeed& feed) {
  const Value* data = nullptr;
  std::string past;
  for (const Value* v : concat.inputs()) {
    if (!v || v->constant()) continue;
    const std::string cache = concat.inputs().size() > 1 && past.empty() ? cache_name(v) : std::string();
    if (!cache.empty()) {
      past = cache;
    } else if (data) {
      return nullptr;
    } else {
      data = v;
    }
  }
  if (data && !past.empty() && feed.past.empty()) feed.past = past;
  return data;
}

AttentionFeed trace(const Value* v) {
  AttentionFeed feed;
  for (int steps = 0; v && steps < 64; ++steps) {
    const Node* n = v->producer();
    if (!n) break;
    const Value* next = nullptr;
    if (is_view(*n)) {
      next = n->input(0);
    } else if (is_any(*n, {"Add", "Sub", "Mul", "Div"}) && !feed.projected) {
      next = data_operand(*n);
    } else if (n->is("Concat")) {
      next = appended(*n, feed);
    } else if (is_product(*n) && !feed.projected && n->input(1) && is_weight(n->input(1))) {
      feed.projected = true;
      next = n->input(0);
    }
    if (!next) break;
    v = next;
  }
  feed.source = name_of(v);
  return feed;
}

// Graph inputs (of any graph around) whose elements, not only sizes, go into `value`; and whether positions do.
struct Origins {
  std::set<std::string> inputs;
  bool positions = false;
};

Origins origins(const Value* value) {
  Origins found;
  std::vector<const Value*> stack{value};
  std::unordered_set<const Value*> seen;
  while (!stack.empty() && seen.size() < 5000) {
    const Value* v = stack.back();
    stack.pop_back();
    if (!v || !seen.insert(v).second || v->constant()) continue;
    const Node* n = v->producer();
    if (!n) {
      found.inputs.insert(name_of(v));
      continue;
    }
    if (is_any(*n, {"Trilu", "Range", "CumSum"})) found.positions = true;
    if (is_any(*n, {"Shape", "Size"})) continue;
    stack.insert(stack.end(), n->inputs().begin(), n->inputs().end());
  }
  return found;
}

std::string describe_mask(const Value* mask) {
  std::string text = "'" + name_of(mask) + "'";
  if (mask->constant()) return text + " (constant)";
  if (!mask->producer()) return text;
  const Origins from = origins(mask);
  std::vector<std::string> parts(from.inputs.begin(), from.inputs.end());
  for (std::string& p : parts) p = "'" + p + "'";
  if (from.positions) parts.emplace_back("positions");
  text += " (" + mask->producer()->type() + ")";
  return parts.empty() ? text : fmt::format("{} of {}", text, fmt::join(parts, ", "));
}

// ---- A softmax between two products

// What lies between the product of scores and the softmax.
struct Scores {
  const Node* product = nullptr;
  std::vector<const Value*> masks;
};

bool find_scores(const Value* v, int depth, Scores& scores) {
  const Node* n = v ? v->producer() : nullptr;
  if (!n || depth == 0) return false;
  if (is_product(*n) || n->is("ReduceSum")) {
    scores.product = n;
    return true;
  }
  if (is_view(*n) || is_any(*n, {"Clip", "Tanh", "Softcap"})) return find_scores(n->input(0), depth - 1, scores);
  if (n->is("If")) {  // TorchScript leaves If (size == 1) Squeeze
    for (const Graph* body : n->subgraphs())
      if (v->output_index() < body->outputs().size() &&
          find_scores(body->outputs()[v->output_index()], depth - 1, scores))
        return true;
    return false;
  }
  if (n->is("Where")) {
    for (const size_t data : {1u, 2u})
      if (find_scores(n->input(data), depth - 1, scores)) {
        scores.masks.push_back(n->input(0));
        return true;
      }
    return false;
  }
  if (is_any(*n, {"Add", "Sub", "Mul", "Div", "Min", "Max"}))
    for (const size_t data : {0u, 1u}) {
      if (is_weight(n->input(data)) || !find_scores(n->input(data), depth - 1, scores)) continue;
      const Value* other = n->input(1 - data);
      if (is_any(*n, {"Add", "Sub"}) && other && other->tensor_type().rank() != 0) scores.masks.push_back(other);
      return true;
    }
  return false;
}

// The product that the weights go into, through what doesn't mix them; and the input that takes them.
std::optional<Use> find_values(const Value* weights, int depth) {
  for (const Use& use : weights->uses()) {
    const Node& n = *use.node;
    if (is_product(n)) return use;
    const bool passes = is_view(n) || is_any(n, {"Where", "Mul"});
    if (passes && depth > 0 && n.output())
      if (const auto found = find_values(n.output(), depth - 1)) return found;
  }
  return std::nullopt;
}

// The sum under a tanh, if the product scores additively: v . tanh(q + k).
const Node* additive_sum(const Node& product) {
  for (const Value* v : product.inputs())
    for (int depth = 0; v && v->producer() && depth < 4; ++depth) {
      const Node& n = *v->producer();
      if (n.is("Tanh"))
        return n.input(0) && n.input(0)->producer() && n.input(0)->producer()->is("Add") ? n.input(0)->producer()
                                                                                         : nullptr;
      if (!is_view(n) && !n.is("Mul")) break;
      v = n.input(0);
    }
  return nullptr;
}

std::string dim_text(const Value* v, int axis) { return v ? v->tensor_type().dim(axis).to_string() : "?"; }

std::optional<AttentionSummary> around_softmax(const Node& softmax) {
  Scores scores;
  if (!softmax.output() || !find_scores(softmax.input(0), 12, scores)) return std::nullopt;
  const auto values = find_values(softmax.output(), 6);
  if (!values || values->node == scores.product) return std::nullopt;

  AttentionSummary s;
  s.form = "softmax";
  const Value* query = scores.product->input(0);
  const Value* key = scores.product->input(1);
  if (const Node* sum = additive_sum(*scores.product)) {
    s.score = "additive";
    // The query is the one without a time axis of its own; where that can't be seen, the first.
    query = sum->input(0);
    key = sum->input(1);
    if (query && key && query->producer() && !query->producer()->is("Unsqueeze") && key->producer() &&
        key->producer()->is("Unsqueeze"))
      std::swap(query, key);
    s.heads = "1";
  } else {
    if (is_weight(key) || is_weight(query)) return std::nullopt;  // a classifier's logits
    s.score = "product";
    s.heads = query && query->tensor_type().rank() >= 4 ? dim_text(query, -3) : "?";
  }
  const Value* value = values->node->input(1 - std::min<size_t>(values->index, 1));
  s.head_width = dim_text(query, -1);
  s.value_width = dim_text(value, -1);
  s.query = trace(query);
  s.key = trace(key);
  s.value = trace(value);
  for (const Value* mask : scores.masks) s.masks.push_back(describe_mask(mask));
  return s;
}

// ---- Fused operators

constexpr int kNone = -1;

struct FusedForm {
  std::string_view domain, type, heads, causal;
  int query, key, value, weight;  // inputs; weight: one that projects query, key and value together
  int past_key, past_value;
  std::array<int, 2> masks;
};

constexpr FusedForm kFusedForms[] = {
    {"ai.attune", "Attention", "num_heads", "causal", 0, 1, 2, kNone, 11, 12, {9, 10}},
    {"", "Attention", "q_num_heads", "is_causal", 0, 1, 2, kNone, 4, 5, {3, 6}},
    {"com.microsoft", "Attention", "num_heads", "unidirectional", 0, 0, 0, 1, 4, 4, {3, 5}},
    {"com.microsoft", "QAttention", "num_heads", "unidirectional", 0, 0, 0, 1, 8, 8, {5, kNone}},
    {"com.microsoft", "MultiHeadAttention", "num_heads", "unidirectional", 0, 1, 2, kNone, 6, 7, {4, 5}},
    {"com.microsoft", "DecoderMaskedMultiHeadAttention", "num_heads", "", 0, 1, 2, kNone, 5, 6, {3, 4}},
    {"com.microsoft", "GroupQueryAttention", "num_heads", "", 0, 1, 2, kNone, 3, 4, {5, kNone}},
    {"com.microsoft", "PackedAttention", "num_heads", "", 0, 0, 0, 1, kNone, kNone, {kNone, kNone}},
};

const Value* input(const Node& n, int index) { return index < 0 ? nullptr : n.input(static_cast<size_t>(index)); }

// The width of `v`, divided among the heads.
std::string quotient_text(const Value* v, int64_t heads) {
  const int rank = v ? v->tensor_type().rank() : 0;
  if (rank == 4) return dim_text(v, -1);
  if (rank != 3 || heads < 1) return "?";
  return Dim::floor_divide(v->tensor_type().dim(-1), Dim(heads)).to_string();
}

std::optional<AttentionSummary> fused(const Node& n) {
  const auto form = std::find_if(std::begin(kFusedForms), std::end(kFusedForms),
                                 [&](const FusedForm& f) { return n.is(f.type, f.domain); });
  if (form == std::end(kFusedForms)) return std::nullopt;
  AttentionSummary s;
  s.form = n.domain().empty() ? n.type() : n.domain() + "." + n.type();
  const std::string* score = n.find<std::string>("score");
  s.score = score && *score == "additive" ? "additive" : "product";
  const Value* query = input(n, form->query);
  const Value* key = input(n, form->key) ? input(n, form->key) : query;
  const Value* value = input(n, form->value) ? input(n, form->value) : key;
  const int64_t* declared = n.find<int64_t>(form->heads);
  const int64_t heads = declared ? *declared : form->domain == "ai.attune" ? 1 : 0;
  s.heads = query && query->tensor_type().rank() == 4 ? dim_text(query, 1) : heads > 0 ? std::to_string(heads) : "?";
  s.query = trace(query);
  s.key = trace(key);
  s.value = trace(value);
  s.head_width = quotient_text(query, heads);
  s.value_width = quotient_text(n.output(), heads);
  if (form->domain == "ai.attune") {
    s.query.projected |= n.input(3) != nullptr;
    s.key.projected |= n.input(4) != nullptr;
    s.value.projected |= n.input(5) != nullptr;
    if (n.input(3)) s.head_width = Dim::floor_divide(n.input(3)->tensor_type().dim(-1), Dim(heads)).to_string();
  }
  if (form->weight != kNone) s.query.projected = s.key.projected = s.value.projected = true;
  if (const Value* past = input(n, form->past_key)) s.key.past = name_of(past);
  if (const Value* past = input(n, form->past_value)) s.value.past = name_of(past);
  const int64_t* causal = n.find<int64_t>(form->causal);
  if ((causal && *causal != 0) || n.is("GroupQueryAttention", "com.microsoft")) s.masks.emplace_back("causal");
  for (const int mask : form->masks)
    if (input(n, mask)) s.masks.push_back(describe_mask(input(n, mask)));
  return s;
}

void collect(const Graph& graph, const std::string& place, std::vector<AttentionSummary>& out) {
  for (const auto& n : graph.nodes()) {
    auto found = n->is("Softmax") ? around_softmax(*n) : fused(*n);
    if (found) {
      found->node = n->label();
      found->place = place;
      // A cache whose new part comes from the query's own source is self-attention.
      if (!found->query.source.empty() && !found->key.source.empty())
        found->kind = found->query.source == found->key.source ? "self" : "cross";
      out.push_back(std::move(*found));
    }
    for (const Graph* body : n->subgraphs()) collect(*body, (place.empty() ? "" : place + " > ") + n->label(), out);
  }
}

}  // namespace

std::vector<AttentionSummary> find_attentions(const Graph& graph) {
  std::vector<AttentionSummary> out;
  collect(graph, "", out);
  return out;
}

}  // namespace attune::cli
