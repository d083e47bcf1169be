// softmax(s v^T tanh(q + k) + mask) m  =  Attention(q, k, m, mask; score = additive, w_score = s v)
#include <fmt/format.h>

#include "passes/attention_node.h"
#include "passes/attention_scores.h"
#include "passes/passes.h"
#include "passes/rules.h"

namespace attune {
namespace {

using pattern::any;
using pattern::Builder;
using pattern::Match;
using pattern::one_of;
using pattern::Op;
using pattern::optional;
using pattern::Outcome;
using pattern::Pat;

Pat additive_pattern() {
  Pat sum = Op("Add", "sum")(any("left"), any("right"));
  Pat product = Op("MatMul", "product")(Op("Tanh")(sum), any("score weight"));
  Pat biased = optional(Op("Add", "score bias"), product, pattern::scalar("bias"));
  Pat squeezed =
      one_of("squeeze", {Op("Squeeze", "scores").further_inputs()(biased), Op("Reshape", "scores 2")(biased, any())});
  Pat as_row = one_of("row of scores", {Op("Unsqueeze", "scores row").further_inputs()(squeezed),  // (B, 1, Tk)
                                        Op("Squeeze", "scores row").further_inputs()(squeezed), squeezed});
  Pat shifted = optional(Op("Add", "row bias"), as_row, pattern::scalar("bias of scores"));
  Pat factor = pattern::scalar("factor");
  Pat scaled = one_of("scaling", {Op("Mul", "scaled")(shifted, factor), Op("Div", "scaled")(shifted, factor), shifted});
  Pat weights = softmax_weights(masked_scores(scaled));
  Pat row = one_of("row", {Op("Unsqueeze", "weights row").further_inputs().replaced()(weights),
                           Op("Reshape", "weights row 2").replaced()(weights, any()), weights});
  return Op("MatMul", "context")(row, any("value"));
}

class AdditiveRewrite {
 public:
  AdditiveRewrite(const Match& m, Builder& b) : m_(m), b_(b) {}

  Outcome run() {
    if (auto refusal = read_sum()) return *refusal;
    if (auto refusal = read_scores()) return *refusal;
    MaskReader mask(m_, b_, *scores_, query_->element_type());
    if (auto refusal = mask.read()) return *refusal;
    std::vector<ShownValue> values = mask.masked();
    for (const ShownValue& v : weights_of(m_)) values.push_back(v);
    if (auto refusal = find_shown(m_, values, query_->element_type(), shown_)) return *refusal;
    if (row_is_used() && shown_.value && shown_.output != "normalized")
      return m_.refuse("softmax", "both scores and weights are also used outside of the attention");
    return build(mask);
  }

 private:
  using Refusal = std::optional<Outcome>;

  // Queries and keys, from the way they are broadcast: (B, 1, U) + (B, Tk, U), or (B, Tq, 1, U) + (B, 1, Tk, U).
  Refusal read_sum() {
    Value *left = m_["left"], *right = m_["right"];
    const TensorType &l = left->tensor_type(), &r = right->tensor_type();
    if (l.rank() == 3 && r.rank() == 3) {
      const bool left_is_query = l.dim(1).is(1);
      if (!left_is_query && !r.dim(1).is(1)) return not_broadcast();
      query_ = left_is_query ? left : right;
      key_ = left_is_query ? right : left;
    } else if (l.rank() == 4 && r.rank() == 4) {
      const bool left_is_query = l.dim(2).is(1) && r.dim(1).is(1);
      if (!left_is_query && !(r.dim(2).is(1) && l.dim(1).is(1))) return not_broadcast();
      query_ = without_axis(left_is_query ? left : right, 2);
      key_ = without_axis(left_is_query ? right : left, 1);
    } else {
      return not_broadcast();
    }
    if (!may_be_equal(query_->tensor_type().dim(0), key_->tensor_type().dim(0)) ||
        !(query_->tensor_type().dim(2) == key_->tensor_type().dim(2)))
      return not_broadcast();
    return std::nullopt;
  }

  Value* without_axis(Value* x, int64_t axis) {
    Dims rest = *x->tensor_type().shape;
    rest.erase(rest.begin() + axis);
    const Node* n = x->producer();
    const bool added = n && (n->is("Reshape") || n->is("Unsqueeze")) && n->input(0)->tensor_type().shape == rest;
    return added ? n->input(0) : b_.squeeze(x, {axis});
  }

  Refusal not_broadcast() {
    return m_.refuse("sum", fmt::format("{} and {} are not a query and keys that are added to each other",
                                        m_["left"]->type().to_string(), m_["right"]->type().to_string()));
  }

  // v is a constant column, the scores are (B, Tk), (B, 1, Tk) or (B, Tq, Tk).
  Refusal read_scores() {
    Value* weight = m_["score weight"];
    const TensorType& w = weight->tensor_type();
    if (!weight->constant() || w.rank() != 2 || !w.dim(1).is(1))
      return m_.refuse("score weight", fmt::format("{} is not a constant column", weight->type().to_string()));
    if (m_.node("score bias") && m_.node("row bias"))
      return m_.refuse("bias of scores", "is a second bias of the scores");
    if (m_.node("scaled") && m_["factor"]->tensor_type().rank() > m_.node("scaled")->input(0)->tensor_type().rank())
      return m_.refuse("factor", "adds axes to the scores");
    const Node* row_of_scores = m_.node("scores row");
    scores_ = (row_of_scores ? row_of_scores : m_.node(m_.choice("squeeze") == 0 ? "scores" : "scores 2"))->output();
    const TensorType &s = scores_->tensor_type(), &product = m_["product"]->tensor_type();
    const Dim queries = product.rank() == 4 ? product.dim(1) : Dim(1), keys = product.dim(-2);
    const bool row = queries.is(1) && s.shape == Dims{s.dim(0), keys};
    if (!row && s.shape != Dims{s.dim(0), queries, keys})
      return m_.refuse("scores", fmt::format("{} are not scores over positions", scores_->type().to_string()));
    const TensorType &value = m_["value"]->tensor_type(), &weights = m_.node("context")->input(0)->tensor_type();
    if (value.rank() != 3 || weights.shape != Dims{weights.dim(0), queries, keys} ||
        !may_be_equal(value.dim(0), key_->tensor_type().dim(0)))
      return m_.refuse("context", fmt::format("{} is not one row of weights times the values {}",
                                              m_.root()->type().to_string(), m_["value"]->type().to_string()));
    return std::nullopt;
  }

  Outcome build(MaskReader& mask) {
    AttentionParts parts;
    parts.inputs[kAttentionQuery] = query_;
    parts.inputs[kAttentionKey] = key_;
    parts.inputs[kAttentionValue] = m_["value"];
    parts.inputs[kAttentionMask] = mask.mask();
    parts.inputs[kAttentionScoreWeight] = scaled(b_.reshape(m_["score weight"], {1, -1}));
    if (Value* bias = m_.node("score bias") ? m_["bias"] : m_.node("row bias") ? m_["bias of scores"] : nullptr)
      parts.inputs[kAttentionScoreBias] = scaled(b_.reshape(bias, {1}));
    parts.attributes["score"] = std::string("additive");
    parts.attributes["num_heads"] = int64_t{1};
    if (mask.mean_if_empty()) parts.attributes["empty_row"] = std::string("mean");
    if (shown_.value && shown_.output != "normalized") parts.attributes["weights_output"] = shown_.output;
    const Node* node = parts.build(b_);
    Outcome outcome(node->output(kAttentionContext));
    const bool row = scores_->tensor_type().rank() == 2;
    if (shown_.value)
      outcome.also(shown_.value, b_.squeeze(node->output(kAttentionWeights),
                                            row ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{1}));
    if (row_is_used()) outcome.also(weights_row(), b_.squeeze(node->output(kAttentionWeights), {1}));
    return outcome.detail("additive scores").detail(mask.description());
  }

  // A factor of all scores is one of what they are a product with.
  Value* scaled(Value* x) {
    const Node* n = m_.node("scaled");
    return n ? b_.op(n->type(), {x, b_.reshape(m_["factor"], {1})}) : x;
  }

  // The weights as a row in front of the product with the values.
  Value* weights_row() const {
    for (const char* name : {"weights row", "weights row 2"})
      if (const Node* n = m_.node(name)) return n->output();
    return nullptr;
  }
  bool row_is_used() const { return weights_row() && is_used_outside(m_, *weights_row()); }

  const Match& m_;
  Builder& b_;
  ShownValue shown_;
  Value *query_ = nullptr, *key_ = nullptr;
  const Value* scores_ = nullptr;
};

}  // namespace

namespace rules {

pattern::Rule additive_attention() {
  return {"fuse_additive_attention",
          additive_pattern(),
          [](const Match& m, Builder& b) { return AdditiveRewrite(m, b).run(); },
          {"Softmax"},
          has_column_scores};
}

}  // namespace rules

size_t fuse_additive_attention(PassContext& context) {
  const std::vector<pattern::Rule> list = {rules::additive_attention()};
  return pattern::apply_rules(list, context);
}

}  // namespace attune
