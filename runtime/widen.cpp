#include "runtime/widen.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ops/support/attention_inputs.h"
#include "ops/support/cast.h"
#include "ops/support/linear.h"
#include "ops/support/stored_weights.h"

namespace attune {
namespace {

bool is_half(const Value* value) {
  return value && value->type().kind == ValueType::Kind::kTensor && is_half(value->element_type());
}

// Operators whose kernels serve any float type, compute in float32, and whose results have the type of their float
// inputs (or are no floats).
bool computes(const Node& node) {
  static const std::unordered_set<std::string_view> kStandard{"Abs",
                                                              "Acos",
                                                              "Acosh",
                                                              "Add",
                                                              "ArgMax",
                                                              "ArgMin",
                                                              "Asin",
                                                              "Asinh",
                                                              "Atan",
                                                              "Atanh",
                                                              "AveragePool",
                                                              "BatchNormalization",
                                                              "Ceil",
                                                              "Celu",
                                                              "Clip",
                                                              "Conv",
                                                              "ConvTranspose",
                                                              "Cos",
                                                              "Cosh",
                                                              "CumSum",
                                                              "Div",
                                                              "Einsum",
                                                              "Elu",
                                                              "Equal",
                                                              "Erf",
                                                              "Exp",
                                                              "Floor",
                                                              "GRU",
                                                              "Gelu",
                                                              "Gemm",
                                                              "Greater",
                                                              "GreaterOrEqual",
                                                              "GroupNormalization",
                                                              "HardSigmoid",
                                                              "HardSwish",
                                                              "Hardmax",
                                                              "InstanceNormalization",
                                                              "IsInf",
                                                              "IsNaN",
                                                              "LSTM",
                                                              "LayerNormalization",
                                                              "LeakyRelu",
                                                              "Less",
                                                              "LessOrEqual",
                                                              "Log",
                                                              "LogSoftmax",
                                                              "LpNormalization",
                                                              "MatMul",
                                                              "Max",
                                                              "MaxPool",
                                                              "Mean",
                                                              "Min",
                                                              "Mish",
                                                              "Mul",
                                                              "Neg",
                                                              "PRelu",
                                                              "Pow",
                                                              "RMSNormalization",
                                                              "RNN",
                                                              "Reciprocal",
                                                              "ReduceL1",
                                                              "ReduceL2",
                                                              "ReduceLogSum",
                                                              "ReduceLogSumExp",
                                                              "ReduceMax",
                                                              "ReduceMean",
                                                              "ReduceMin",
                                                              "ReduceProd",
                                                              "ReduceSum",
                                                              "ReduceSumSquare",
                                                              "Relu",
                                                              "RotaryEmbedding",
                                                              "Round",
                                                              "Selu",
                                                              "Sigmoid",
                                                              "Sign",
                                                              "Sin",
                                                              "Sinh",
                                                              "Softmax",
                                                              "Softplus",
                                                              "Softsign",
                                                              "Sqrt",
                                                              "Sub",
                                                              "Sum",
                                                              "Swish",
                                                              "Tan",
                                                              "Tanh",
                                                              "ThresholdedRelu",
                                                              "TopK"};
  static const std::unordered_set<std::string_view> kOther{"BiasGelu",
                                                           "FastGelu",
                                                           "FusedGemm",
                                                           "FusedMatMul",
                                                           "Gelu",
                                                           "Linear",
                                                           "PositionEmbedding",
                                                           "QuickGelu",
                                                           "ResidualNormalization",
                                                           "SimplifiedLayerNormalization",
                                                           "SkipLayerNormalization",
                                                           "SkipSimplifiedLayerNormalization"};
  if (node.is("DequantizeLinear") || node.is("QuantizeLinear"))
    return !node.has("output_dtype") && !node.has("precision");
  if (node.domain().empty()) return kStandard.contains(node.type());
  return (node.domain() == "com.microsoft" || node.domain() == "ai.attune") && kOther.contains(node.type());
}

// Operators that only move elements.
bool moves(const Node& node) {
  static const std::unordered_set<std::string_view> kMoves{
      "Compress",        "Concat",          "DepthToSpace", "Dropout",
      "Expand",          "Flatten",         "Gather",       "GatherElements",
      "GatherND",        "Identity",        "Pad",          "Reshape",
      "ScatterND",       "ScatterElements", "Slice",        "Split",
      "ReverseSequence", "SpaceToDepth",    "Squeeze",      "Tile",
      "Transpose",       "Trilu",           "Unsqueeze",    "Where"};
  return node.domain().empty() && kMoves.contains(node.type()) && node.attr_string("reduction", "none") == "none";
}

// A constant that the kernel takes in as it is stored, whatever the type of the other inputs.
bool stays_packed(const Node& node, size_t input) {
  const Value* value = node.input(input);
  const Tensor* t = value ? value->constant() : nullptr;
  if (!t) return false;
  if (node.is("GRU") || node.is("LSTM") || node.is("RNN"))
    return (input == 1 || input == 2) && node.input(3 - input) && node.input(3 - input)->constant();
  const bool product =
      node.is("MatMul") || (node.is("Gemm") && node.attr_int("transA", 0) == 0) || node.is("Linear", "ai.attune");
  return product && input == 1 && LinearWeights::serves(*t);
}

class Widening {
 public:
  Widening(HalfMatrices matrices, HalfCaches caches, const std::function<void(Node&)>& added)
      : matrices_(matrices), caches_(caches), added_(added) {}

  void run(Graph& graph) {
    for (Node* node : graph.topological_order()) visit(*node);
    for (size_t i = 0; i < graph.outputs().size(); ++i) {
      Value* v = graph.outputs()[i];
      if (!is_wide(v)) continue;
      const std::string name(v->name());
      v->set_name({});
      narrow(v)->set_name(name);
      graph.set_output(i, narrow(v));
    }
  }

 private:
  bool is_wide(const Value* value) const { return value && narrow_type_.contains(value); }

  // A Cast of a half to the type that it has changes nothing.
  bool is_identity(const Node& node) const {
    return node.is("Cast") && is_wide(node.input(0)) &&
           node.attr_int("to", 0) == static_cast<int64_t>(narrow_type_.at(node.input(0)));
  }

  // Keys and values that would be widened anew in every step: kernels take them narrower than the queries.
  bool is_cache(const Node& node, size_t input) const {
    if (input == kAttentionPastKey || input == kAttentionPastValue) return true;
    const bool memory = input == kAttentionKey || input == kAttentionValue;
    const Value* v = node.input(input);
    return memory && v && !node.input(kAttentionPastKey) && v->tensor_type().rank() != 3 && !is_wide(v);
  }

  // Of an ai.attune Attention.
  bool has_cache(const Node& node) const {
    return node.input(kAttentionPastKey) || is_cache(node, kAttentionKey) || is_cache(node, kAttentionValue);
  }

  // In files all operands of an operator have one type, in plans keys and values have one.
  bool widens_attention(const Node& node) const {
    if (!node.is("Attention", "ai.attune")) return false;
    if (caches_ == HalfCaches::kBehindCasts) return true;
    if (matrices_ == HalfMatrices::kBehindCasts) return !has_cache(node);
    return is_cache(node, kAttentionKey) == is_cache(node, kAttentionValue);
  }

  // Of an attention with a cache: what it computes from is as exact as it was made, though the file rounds it.
  static Value* before_rounding(Value* value) {
    const Node* cast = value->producer();
    const bool rounds = cast && cast->is("Cast") && cast->input(0)->element_type() == DataType::kFloat;
    return rounds ? cast->input(0) : nullptr;
  }

  void visit(Node& node) {
    if (is_identity(node)) {
      node.set("to", static_cast<int64_t>(DataType::kFloat));
      return mark_wide(node.output());
    }
    const bool attends = widens_attention(node),
               cached = attends && caches_ == HalfCaches::kAsStored && has_cache(node);
    const bool widens = computes(node) || moves_wide(node) || attends;
    // A Cast to anything but a half takes the more exact value.
    const bool reads_wide = widens || (node.is("Cast") && !is_half(static_cast<DataType>(node.attr_int("to", 0))));
    for (size_t i = 0; i < node.inputs().size(); ++i) {
      Value* v = node.input(i);
      if (cached && is_cache(node, i)) continue;
      if (Value* exact = cached && is_half(v) ? before_rounding(v) : nullptr) {
        node.set_input(i, exact);
      } else if (widens && is_half(v) && !stays_as_stored(node, i)) {
        node.set_input(i, node.is("Attention") && takes_stored_matrix(node, i) ? wide_in_storage(v) : wide(v));
      }
      if (!reads_wide && is_wide(v)) node.set_input(i, narrow(v));
    }
    for (Graph* body : node.subgraphs()) run(*body);
    if (!widens) return;
    for (size_t i = 0; i < node.output_count(); ++i) {
      const bool present = cached && (i == kAttentionPresentKey || i == kAttentionPresentValue);
      if (Value* v = node.output(i); is_half(v) && !present) mark_wide(v);
    }
  }

  // Moved values are wide if what is moved is; what leaves the graph (a cache with new rows) is moved as a half.
  bool moves_wide(const Node& node) const {
    if (!moves(node)) return false;
    for (size_t i = 0; i < node.output_count(); ++i)
      if (node.output(i) && node.output(i)->is_graph_output()) return false;
    return std::any_of(node.inputs().begin(), node.inputs().end(), [&](const Value* v) { return is_wide(v); });
  }

  bool stays_as_stored(const Node& node, size_t input) const {
    return (matrices_ == HalfMatrices::kAsStored || node.is("Linear", "ai.attune")) && stays_packed(node, input);
  }

  void mark_wide(Value* value) {
    narrow_type_[value] = value->element_type();
    set_element(value, DataType::kFloat);
  }

  static void set_element(Value* value, DataType type) {
    ValueType t = value->type();
    t.tensor.element = type;
    value->set_type(std::move(t));
  }

  Value* wide(Value* value) {
    if (is_wide(value)) return value;
    if (matrices_ == HalfMatrices::kBehindCasts && value->constant() && value->constant()->rank() >= 2)
      return wide_in_storage(value);
    Value*& twin = wide_[value];
    if (!twin) {
      const Tensor* constant = value->constant();
      twin = constant ? value->graph()->add_constant(cast(*constant, DataType::kFloat, nullptr, {}))
                      : add_cast(value, DataType::kFloat);
    }
    return twin;
  }

  // A matrix that the kernel takes, or the file has, as it is stored.
  Value* wide_in_storage(Value* value) {
    if (!value->constant()) return wide(value);
    Value*& twin = stored_[value];
    if (!twin) twin = add_cast(value, DataType::kFloat);
    return twin;
  }

  Value* narrow(Value* value) {
    Value*& twin = narrow_[value];
    if (!twin) twin = add_cast(value, narrow_type_.at(value));
    return twin;
  }

  Value* add_cast(Value* value, DataType to) {
    Node* node = value->graph()->add_node("", "Cast", {value}, 1, {{"to", static_cast<int64_t>(to)}});
    node->output()->set_type(value->type());
    set_element(node->output(), to);
    added_(*node);
    return node->output();
  }

  const HalfMatrices matrices_;
  const HalfCaches caches_;
  const std::function<void(Node&)>& added_;
  std::unordered_map<const Value*, DataType> narrow_type_;  // of values that are float32 now: the type they had
  std::unordered_map<const Value*, Value*> wide_, narrow_, stored_;  // twins of the other type
};

bool types_are_known(const Graph& graph) {
  bool known = true;
  graph.for_each_node([&](const Node& node) {
    for (size_t i = 0; i < node.output_count(); ++i) {
      const Value* v = node.output(i);
      known = known && (!v || v->uses().empty() || v->type().kind != ValueType::Kind::kTensor ||
                        v->element_type() != DataType::kUndefined);
    }
  });
  return known;
}

}  // namespace

bool has_halves(const Graph& graph) {
  const auto in_graph = [](const Graph& g) {
    return std::any_of(g.inputs().begin(), g.inputs().end(), [](const Value* v) { return is_half(v); }) ||
           std::any_of(g.constants().begin(), g.constants().end(), [](const auto& v) { return is_half(v.get()); });
  };
  bool found = in_graph(graph);
  graph.for_each_node([&](const Node& node) {
    found = found || (node.is("Cast") && is_half(static_cast<DataType>(node.attr_int("to", 0))));
    for (const Graph* body : node.subgraphs()) found = found || in_graph(*body);
  });
  return found;
}

void widen_halves(Graph& graph, HalfMatrices matrices, HalfCaches caches, const std::function<void(Node&)>& added) {
  if (types_are_known(graph)) Widening(matrices, caches, added).run(graph);
}

}  // namespace attune
