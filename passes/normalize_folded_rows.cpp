// Linear layers over rows that were folded or regrouped work on rows as they were:  f(fold(x)) = fold(f(x))
#include <algorithm>

#include "passes/attention_node.h"
#include "passes/node_facts.h"
#include "passes/passes.h"
#include "passes/rules.h"

namespace attune {
namespace {

using pattern::any;
using pattern::Builder;
using pattern::Match;
using pattern::one_of;
using pattern::Op;
using pattern::Outcome;
using pattern::Pat;

// x (B, T, D) as rows (B T, D).
Pat folded_rows() {
  return one_of("fold", {Op("Reshape", "rows").shared()(any("x"), any()),
                         Op("Squeeze", "rows").further_inputs().shared()(any("x"))});
}

bool folds_rows(const Match& m) {
  const Dims *x = dims(m["x"]), *rows = dims(m["rows"]);
  return x && rows && x->size() > 2 && rows->size() == 2 && x->back() == rows->back();
}

// A constant matrix (D, N) for a product from the right; null where it would be copied for others, or isn't one.
Value* right_matrix(Value* weight, bool transposed, Builder& b) {
  if (!weight->constant() || weight->tensor_type().rank() != 2) return nullptr;
  if (!transposed) return weight;
  return weight->uses().size() == 1 ? b.transpose(weight, {1, 0}) : nullptr;
}

Value* fold_again(Value* states, Builder& b) {
  return b.reshape(states, {-1, *states->tensor_type().dim(-1).constant()});
}

// Why the Gemm isn't x W + b of rows; empty if it is.
std::string why_no_layer(const Node& gemm) {
  if (gemm.attr_int("transA", 0) != 0 || gemm.attr_float("alpha", 1) != 1 || gemm.attr_float("beta", 1) != 1)
    return "scales its operands, or transposes the rows";
  const Value* bias = gemm.input(2);
  return bias && bias->tensor_type().rank() != 1 && bias->tensor_type().rank() != 0 ? "adds another bias to each row"
                                                                                    : "";
}

// GPT-2's layers, and what tools make of MatMul and Add.
pattern::Rule folded_gemm() {
  Pat rows = folded_rows();
  Pat product = Op("Gemm", "gemm").further_inputs()(rows, any("weight"));
  return {"normalize_folded_rows", product, [](const Match& m, Builder& b) -> Outcome {
            const Node& gemm = *m.node("gemm");
            Value* bias = gemm.input(2);
            if (!folds_rows(m)) return m.refuse("rows", "are not folded from several axes");
            if (std::string reason = why_no_layer(gemm); !reason.empty()) return m.refuse("gemm", std::move(reason));
            Value* weight = right_matrix(m["weight"], gemm.attr_int("transB", 0) != 0, b);
            if (!weight) return m.refuse("weight", "is no constant matrix, or would be copied for its other users");
            Value* states = b.op("MatMul", {m["x"], weight});
            return fold_again(bias ? b.op("Add", {states, bias}) : states, b);
          }};
}

pattern::Rule folded_product() {
  Pat product = Op("MatMul")(folded_rows(), any("weight"));
  return {"normalize_folded_rows", product, [](const Match& m, Builder& b) -> Outcome {
            if (!folds_rows(m)) return m.refuse("rows", "are not folded from several axes");
            if (!right_matrix(m["weight"], false, b)) return m.refuse("weight", "is no constant matrix");
            return fold_again(b.op("MatMul", {m["x"], m["weight"]}), b);
          }};
}

// Contexts (B, T, H, E) whose heads are merged and rows folded at once: first the one, then the other.
pattern::Rule folded_context() {
  Pat rows = Op("Reshape", "rows")(Op("Transpose", "context").shared()(any()), any());
  return {"normalize_folded_rows", rows, [](const Match& m, Builder& b) -> Outcome {
            const Dims *context = dims(m["context"], 4), *rows = dims(m["rows"], 2);
            if (!context || !rows || !((*context)[2] * (*context)[3] == (*rows)[1]))
              return m.refuse("rows", "are not those of a context");
            const auto& uses = m["rows"]->uses();
            const bool product = std::all_of(uses.begin(), uses.end(), [](const Use& u) {
              return u.index == 0 && (u.node->is("Gemm") || u.node->is("MatMul"));
            });
            const auto width = (*rows)[1].constant();
            if (!product || !width) return m.refuse("rows", "do not go to linear layers alone");
            return b.reshape(b.reshape(m["context"], {0, 0, *width}), {-1, *width});
          }};
}

// (B, T, D) W = (B, T, H E) as (B', T', H, E): the states regrouped as (B', T', D) before, once for all layers.
// Exporters leave the batch of encoder states another name than that of queries, which they are split by.
pattern::Rule regrouped_heads() {
  Pat product = Op("MatMul", "product")(any("x"), any("weight"));
  Pat projected = one_of("biased", {Op("Add")(product, any("bias")), product});
  return {"normalize_regrouped_rows", Op("Reshape", "heads")(projected, any("target")),
          [](const Match& m, Builder& b) -> Outcome {
            const Dims *states = dims(m["product"], 3), *heads = dims(m["heads"], 4);
            const Value* bias = m["bias"];
            if (!right_matrix(m["weight"], false, b)) return m.refuse("weight", "is no constant matrix");
            if (bias && (!bias->constant() || bias->tensor_type().rank() != 1))
              return m.refuse("bias", "is no constant vector");
            if (!states || !heads) return m.refuse("heads", "are not of states (B, T, H E)");
            const auto count = (*heads)[2].constant(), size = (*heads)[3].constant();
            if (!count || !size || !(states->back() == Dim(*count * *size)))
              return m.refuse("heads", "are not of the last axis alone");
            if ((*states)[0] == (*heads)[0])  // and so the positions, too
              return m.refuse("heads", "are of the rows as they were");
            Value* leading = b.op("Slice", {m["target"], b.integers({0}), b.integers({2})});
            Value* target =
                b.op("Concat", {leading, b.integers({m["weight"]->constant()->dim(0)})}, {{"axis", int64_t{0}}});
            Value* rows = b.op("Reshape", {m["x"], target}, {{"allowzero", m.node("heads")->attr_int("allowzero", 0)}});
            Value* result = b.op("MatMul", {rows, m["weight"]});
            if (bias) result = b.op("Add", {result, m["bias"]});
            return b.reshape(result, {0, 0, *count, *size});
          }};
}

// Unsqueeze(x W + b, 1) = Unsqueeze(x, 1) W + b: the state of a recurrent decoder as the query of an attention.
pattern::Rule unsqueezed_layer() {
  Pat product = Op("MatMul", "product")(any("x"), any("weight"));
  Pat layer = one_of("layer", {Op("Add")(product, any("bias")), product,
                               Op("Gemm", "gemm").further_inputs()(any("x"), any("weight"))});
  return {"normalize_projection", Op("Unsqueeze", "row").further_inputs()(layer),
          [](const Match& m, Builder& b) -> Outcome {
            const Node* gemm = m.node("gemm");
            Value* bias = gemm ? gemm->input(2) : m["bias"];
            if (gemm)
              if (std::string reason = why_no_layer(*gemm); !reason.empty()) return m.refuse("gemm", std::move(reason));
            if (m["x"]->tensor_type().rank() != 2 || axes_of(*m.node("row"), m.inference()) != std::vector<int64_t>{1})
              return m.refuse("row", "does not make rows (B, 1, D) of states (B, D)");
            if (bias && bias->tensor_type().rank() != 1) return m.refuse("layer", "its bias is not a vector");
            Value* weight = right_matrix(m["weight"], gemm && gemm->attr_int("transB", 0) != 0, b);
            if (!weight) return m.refuse("weight", "is no constant matrix, or would be copied for its other users");
            const auto attends = [](const Use& u) { return is_attention(*u.node) && u.index <= kAttentionValue; };
            const auto& uses = m["row"]->uses();
            if (!std::all_of(uses.begin(), uses.end(), attends))
              return m.refuse("row", "is no operand of an Attention");
            Value* states = b.op("MatMul", {b.unsqueeze(m["x"], {1}), weight});
            return bias ? b.op("Add", {states, bias}) : states;
          }};
}

}  // namespace

pattern::Rule rules::unsqueezed_layer() { return attune::unsqueezed_layer(); }

size_t normalize_folded_rows(PassContext& context) {
  const std::vector<pattern::Rule> list = {folded_gemm(), folded_product(), folded_context(), regrouped_heads()};
  return pattern::apply_rules(list, context);
}

}  // namespace attune
