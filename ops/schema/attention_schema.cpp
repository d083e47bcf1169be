#include "ops/schema/attention_schema.h"

#include <onnx/defs/shape_inference.h>

#include "ops/support/attention_inputs.h"

namespace attune {
namespace {

using onnx::AttributeProto;
using onnx::InferenceContext;
using onnx::OpSchema;
using onnx::TensorShapeProto;
using SymbolicDim = TensorShapeProto::Dimension;

constexpr const char* kDoc = R"(
Attention between a query sequence and a memory: scaled-dot, dot, general (bilinear) or additive scores; soft, hard or
monotonic alignment; one or many heads; projected inside the operator or outside.

B is the batch (query, key, value and mask may each have one of 1 instead, for every row of the others'), Tq the query
length, Tp the past length, Tn the new key length, Tk = Tp + Tn, H the number of query heads, G that of key/value heads (G
divides H; query head h reads key/value head h / (H/G)), D* input widths, E the width of a query head and, but for
`general`, of a key head (there Ek), F that of a value head.

The order of computation: 1. project, split heads; 2. append to the past; 3. score, plus b_score; 4. softcap; 5. add the
float mask; positions that a bool mask, key_lengths, causal or window exclude do not take part; 6. align; 7. combine.
Scores, softmax and accumulation are float32 at least.

An excluded position is not read: NaN or infinity in it never reaches the context. A float mask of -inf excludes as a
bool mask does; a finite one is added, however large (a sum that overflows is the lowest finite number).

Alignment `soft` is a softmax over the positions that take part: its weights sum to 1, one position has weight 1.
`hard` takes one position: that of the largest score, the first of equals, or with `sample` one drawn from the softmax.
The same call gives the same draw on every host. `monotonic` goes through the queries in order, each starting where the
one before stopped: the first position from there on that takes part and whose score is not negative is chosen, and
softmax weights over the last `chunk` positions up to it are used; if there is none, weights and context are 0 and
next_position is Tk. Positions before next_position - chunk + 1 are never read again: a stream may drop them, and then
counts `position` from the first key that it still gives.

A query that may see nothing gets weights 0 and context 0, or with empty_row `mean` the mean of all values, which are
then read. What a query may see propagates as IEEE 754 has it. With operands of 16 bits, projected queries, keys and
values are rounded to the operands' type, and scores use what present_key holds.

Weights outputs `raw` and `capped` hold every position's score, excluded ones too; `biased` has -inf there, `normalized`
and `head_mean` have 0. A window or causal compares positions on the key axis, where a query's is query_position + t.

It is an error: a scale that is negative, not finite, or beside another score than scaled_dot; a negative softcap; a
window below -1; a chunk below 1; a negative position; one past without the other; an integer mask (compare it first);
a projection beside an operand of four dimensions; next_position of another alignment.

The function body is the meaning in standard operators. There is none for `sample`.
The scores scaled_dot, dot and general become ai.onnx::Attention where the model's opset has it and it computes the same.
)";

struct Text {
  const char* name;
  const char* description;
};

constexpr Text kInputs[] = {
    {"query", "The state that looks: (B, Tq, Dq), or (B, H, Tq, E) already split into heads"},
    {"key", "The memory: (B, Tn, Dk), or (B, G, Tn, E) already projected and split; left out: the query"},
    {"value", "What is combined: (B, Tn, Dv), or (B, G, Tn, F); left out: the key input, before its projection"},
    {"w_query", "Projection (Dq, H*E); left out: identity"},
    {"w_key", "Projection (Dk, G*E); left out: identity"},
    {"w_value", "Projection (Dv, G*F); left out: identity"},
    {"b_query", "Bias (H*E) of the projection"},
    {"b_key", "Bias (G*E) of the projection"},
    {"b_value", "Bias (G*F) of the projection"},
    {"mask", "Broadcastable to (B, H, Tq, Tk). bool: true may attend; else added to the score"},
    {"key_lengths", "(B): position i of batch b exists if i < key_lengths[b]; below 0 means 0, above Tk means Tk"},
    {"past_key", "(B, G, Tp, E): projected keys of earlier steps; with past_value or not at all"},
    {"past_value", "(B, G, Tp, F): projected values of earlier steps"},
    {"w_score", "additive: v (H, E) of v'tanh(q + k); general: W (H, E, Ek) of q'Wk"},
    {"b_score", "(H): constant added to each score"},
    {"position", "(B, H), not negative; monotonic: where the previous step stopped; left out: 0"},
    {"query_position", "(B): position of query 0 on the key axis, for causal and window; left out: Tp"},
    {"draw", "Scalar; hard with sample: the number of this draw; left out: 0"},
};

constexpr Text kOutputs[] = {
    {"context", "(B, Tq, H*F), or (B, H, Tq, F) if the query has four dimensions"},
    {"present_key", "(B, G, Tk, E): the past with the new appended; without a past the new"},
    {"present_value", "(B, G, Tk, F)"},
    {"weights", "(B, H, Tq, Tk), or (B, 1, Tq, Tk) for head_mean: what weights_output says"},
    {"next_position", "(B, H); monotonic: where the last query stopped"},
};

void add_attributes(OpSchema& s) {
  s.Attr("num_heads", "Query heads; needed for a query of three dimensions with more than one head",
         AttributeProto::INT, false);
  s.Attr("num_kv_heads", "Key/value heads; left out: read off operands of four dimensions, else num_heads",
         AttributeProto::INT, false);
  s.Attr("score", "scaled_dot, dot, general or additive", AttributeProto::STRING, std::string("scaled_dot"));
  s.Attr("scale", "Factor of scaled_dot, finite and not negative; left out: 1/sqrt(E)", AttributeProto::FLOAT, false);
  s.Attr("softcap", "c*tanh(score/c) when positive", AttributeProto::FLOAT, 0.0f);
  s.Attr("causal", "1: query t, at p = query_position + t, sees key i if i <= p", AttributeProto::INT, int64_t{0});
  s.Attr("window", "[left, right]: it sees p-left <= i <= p+right; -1: unbounded", AttributeProto::INTS,
         std::vector<int64_t>{-1, -1});
  s.Attr("alignment", "soft, hard or monotonic", AttributeProto::STRING, std::string("soft"));
  s.Attr("sample",
         "hard: 1 draws from the softmax: u is the first word of Philox4x32-10 with key (seed) and counter (draw, b, "
         "h, t) "
         "over 2^32; the first position whose cumulative weight exceeds u",
         AttributeProto::INT, int64_t{0});
  s.Attr("seed", "Key of the draws", AttributeProto::INT, int64_t{0});
  s.Attr("chunk", "monotonic: weights over so many positions up to the chosen one", AttributeProto::INT, int64_t{1});
  s.Attr("empty_row",
         "What a query that may see nothing gets: zero, or mean (equal weights over all Tk values, which are read)",
         AttributeProto::STRING, std::string("zero"));
  s.Attr("weights_output", "raw (step 3), capped (step 4), biased (step 5), normalized (step 6), or head_mean of these",
         AttributeProto::STRING, std::string("normalized"));
}

// --- inference

const TensorShapeProto* shape_of(const InferenceContext& ctx, size_t input) {
  return onnx::hasInputShape(ctx, input) ? &onnx::getInputShape(ctx, input) : nullptr;
}

int64_t int_attribute(const InferenceContext& ctx, const char* name, int64_t fallback) {
  const auto* a = ctx.getAttribute(name);
  return a && a->has_i() ? a->i() : fallback;
}

SymbolicDim constant(int64_t value) {
  SymbolicDim d;
  if (value > 0) d.set_dim_value(value);
  return d;
}

SymbolicDim divide(const SymbolicDim& dim, const SymbolicDim& by) {
  SymbolicDim d;
  if (dim.has_dim_value() && by.has_dim_value() && by.dim_value() > 0 && dim.dim_value() % by.dim_value() == 0)
    d.set_dim_value(dim.dim_value() / by.dim_value());
  return d;
}

SymbolicDim sum(const SymbolicDim& a, const SymbolicDim& b) {
  SymbolicDim d;
  if (a.has_dim_value() && b.has_dim_value()) d.set_dim_value(a.dim_value() + b.dim_value());
  if (a.has_dim_value() && a.dim_value() == 0) d = b;
  return d;
}

struct Operand {
  int rank = -1;
  SymbolicDim batch, heads, length, width;
};

// Input `states` projected by `weight` or with `bias`, as (B, heads, T, width).
Operand operand(const InferenceContext& ctx, size_t states, size_t weight, size_t bias, const SymbolicDim& heads) {
  Operand o;
  o.heads = heads;
  const TensorShapeProto* shape = shape_of(ctx, states);
  if (!shape) return o;
  o.rank = shape->dim_size();
  if (o.rank != 3 && o.rank != 4)
    fail_shape_inference("Attention: input ", states, " must have 3 or 4 dimensions, has ", o.rank);
  o.batch = shape->dim(0);
  o.length = shape->dim(o.rank - 2);
  if (o.rank == 4) {
    o.heads = shape->dim(1);
    o.width = shape->dim(3);
    return o;
  }
  SymbolicDim columns = shape->dim(2);
  if (ctx.hasInput(weight)) {
    columns.Clear();
    if (const auto* w = shape_of(ctx, weight); w && w->dim_size() == 2) columns = w->dim(1);
  } else if (const auto* b = ctx.hasInput(bias) ? shape_of(ctx, bias) : nullptr;
             b && b->dim_size() == 1 && !columns.has_dim_value()) {
    columns = b->dim(0);
  }
  o.width = divide(columns, heads);
  return o;
}

SymbolicDim heads_of(const InferenceContext& ctx, const char* attribute, std::initializer_list<size_t> inputs,
                     const SymbolicDim& fallback) {
  if (const int64_t given = int_attribute(ctx, attribute, 0); given > 0) return constant(given);
  for (const size_t input : inputs)
    if (ctx.hasInput(input)) {
      const auto* shape = shape_of(ctx, input);
      if (!shape) return {};
      if (shape->dim_size() == 4) return shape->dim(1);
    }
  return fallback;
}

void set_output(InferenceContext& ctx, size_t output, std::initializer_list<SymbolicDim> dims) {
  if (output >= ctx.getNumOutputs()) return;
  TensorShapeProto shape;
  for (const auto& d : dims) *shape.add_dim() = d;
  onnx::updateOutputShape(ctx, output, shape);
}

void infer(InferenceContext& ctx) {
  for (size_t i = 0; i < std::min<size_t>(ctx.getNumOutputs(), kAttentionNextPosition); ++i)
    onnx::propagateElemTypeFromInputToOutput(ctx, kAttentionQuery, i);
  if (ctx.getNumOutputs() > kAttentionNextPosition)
    onnx::updateOutputElemType(ctx, kAttentionNextPosition, onnx::TensorProto::INT64);
  const size_t key = ctx.hasInput(kAttentionKey) ? kAttentionKey : kAttentionQuery;
  const size_t value = ctx.hasInput(kAttentionValue) ? kAttentionValue : key;
  const SymbolicDim heads = heads_of(ctx, "num_heads", {kAttentionQuery}, constant(1));
  const SymbolicDim kv_heads =
      heads_of(ctx, "num_kv_heads", {key, value, kAttentionPastKey, kAttentionPastValue}, heads);
  const Operand q = operand(ctx, kAttentionQuery, kAttentionQueryWeight, kAttentionQueryBias, heads);
  const Operand k = operand(ctx, key, kAttentionKeyWeight, kAttentionKeyBias, kv_heads);
  const Operand v = operand(ctx, value, kAttentionValueWeight, kAttentionValueBias, kv_heads);
  SymbolicDim length = k.length;
  if (ctx.hasInput(kAttentionPastKey)) {
    const auto* past = shape_of(ctx, kAttentionPastKey);
    length = past && past->dim_size() == 4 ? sum(past->dim(2), k.length) : SymbolicDim();
  }
  if (q.rank == 4) {
    set_output(ctx, kAttentionContext, {q.batch, q.heads, q.length, v.width});
  } else if (q.rank == 3) {
    SymbolicDim merged;
    if (heads.has_dim_value() && v.width.has_dim_value()) merged.set_dim_value(heads.dim_value() * v.width.dim_value());
    set_output(ctx, kAttentionContext, {q.batch, q.length, merged});
  }
  const SymbolicDim batch = q.rank > 0 ? q.batch : k.batch;
  set_output(ctx, kAttentionPresentKey, {batch, k.heads, length, k.width});
  set_output(ctx, kAttentionPresentValue, {batch, v.heads, length, v.width});
  const auto* kind = ctx.getAttribute("weights_output");
  set_output(ctx, kAttentionWeights, {batch, kind && kind->s() == "head_mean" ? constant(1) : heads, q.length, length});
  set_output(ctx, kAttentionNextPosition, {batch, heads});
}

}  // namespace

OpSchema attention_schema() {
  OpSchema s;
  s.SetName("Attention").SetDomain("ai.attune").SinceVersion(1).SetDoc(kDoc);
  add_attributes(s);
  for (int i = 0; i < static_cast<int>(kAttentionInputs); ++i) {
    const bool integers = i == kAttentionKeyLengths || i >= static_cast<int>(kAttentionPosition);
    const char* type = i == static_cast<int>(kAttentionMask) ? "M" : integers ? "tensor(int64)" : "T";
    s.Input(i, kInputs[i].name, kInputs[i].description, type, i == 0 ? OpSchema::Single : OpSchema::Optional);
  }
  for (int i = 0; i < static_cast<int>(kAttentionOutputs); ++i)
    s.Output(i, kOutputs[i].name, kOutputs[i].description,
             i == static_cast<int>(kAttentionNextPosition) ? "tensor(int64)" : "T",
             i == 0 ? OpSchema::Single : OpSchema::Optional);
  const std::vector<std::string> floats{"tensor(float)", "tensor(float16)", "tensor(bfloat16)", "tensor(double)"};
  auto masks = floats;
  masks.emplace_back("tensor(bool)");
  s.TypeConstraint("T", floats, "Floating-point types");
  s.TypeConstraint("M", masks, "bool, or the type of the query");
  s.TypeAndShapeInferenceFunction(infer);
  return s;
}

}  // namespace attune
