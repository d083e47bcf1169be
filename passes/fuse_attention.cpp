// softmax(c tanh(s q k^T / c) + mask) v  =  Attention(q, k, v, mask; scale = s, softcap = c)
#include <fmt/format.h>

#include <cmath>

#include "passes/attention_groups.h"
#include "passes/attention_node.h"
#include "passes/attention_scores.h"
#include "passes/attention_streams.h"
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
using pattern::scalar;

enum Scaling : size_t { kMultiplied, kDivided, kUnscaled };

// x times, or divided by, a number; or x.
Pat scaled(const std::string& name, const Pat& x) {
  Pat factor = scalar(name + " factor");
  return one_of(name, {Op("Mul")(x, factor), Op("Div")(x, factor), x});
}

// As before, where the result may be given to others too.
Pat scaled_scores(const Pat& x) {
  Pat factor = scalar("scaling factor");
  return one_of("scaling", {Op("Mul", "scaled scores").replaced()(x, factor),
                            Op("Div", "scaled scores").replaced()(x, factor), x});
}

// c tanh(x / c), or x.
Pat capped(const Pat& x) {
  Pat cap = scalar("softcap");
  return one_of("cap", {Op("Mul", "capped scores").replaced()(Op("Tanh")(Op("Div")(x, cap)), cap), x});
}

// `in_float`: operands of 16 bits whose weights and values are multiplied as floats.
Pat attention_pattern(bool in_float) {
  Pat q = any("query"), kt = any("key"), v = any("value");
  Pat scores = Op("MatMul", "scores").replaced()(scaled("query scaling", q), scaled("key scaling", kt));
  Pat row = optional(Op("Squeeze", "row scores").further_inputs(), scores);  // of a single query
  Pat shifted =
      optional(Op("Add", "shift"), capped(scaled_scores(scaled("first scaling", row))), scalar("shift number"));
  Pat unfolded = optional(Op("Reshape", "unfold"), shifted, any());
  Pat folded = optional(Op("Reshape", "fold"), masked_scores(unfolded), any());
  Pat weights = softmax_weights(folded);
  Pat matrix = one_of("weights form", {Op("Reshape", "fold weights")(weights, any()),
                                       Op("Unsqueeze", "row weights").further_inputs().replaced()(weights), weights});
  if (in_float) return Op("Cast", "context cast")(Op("MatMul", "context")(matrix, Op("Cast").shared()(v)));
  return Op("MatMul", "context")(matrix, v);
}

constexpr double kLargestShift = 1e3;

constexpr int kGroupAxis = 2;  // of (B, G, r, T, E)

class AttentionRewrite {
 public:
  AttentionRewrite(const Match& m, Builder& b) : m_(m), b_(b) {}

  Outcome run() {
    if (auto refusal = read_operands()) return *refusal;
    if (auto refusal = read_scale()) return *refusal;
    if (auto refusal = read_row()) return *refusal;
    MaskReader mask(m_, b_, scores(), type_);
    if (auto refusal = mask.read()) return *refusal;
    if (auto refusal = read_cap()) return *refusal;
    if (auto refusal = read_shown(mask)) return *refusal;
    Value* folded = row_of_heads() ? mask.mask_of_row() : mask.mask();
    if (streams_of_) folded = mask_without_streams(folded);
    if (groups_ || rows_)
      if (auto refusal = mask_without_groups(folded)) return *refusal;
    return build(mask, folded);
  }

 private:
  using Refusal = std::optional<Outcome>;

  Refusal read_operands() {
    query_ = m_["query"];
    key_transposed_ = m_["key"];
    value_ = m_["value"];
    const int rank = query_->tensor_type().rank();
    if (rank < 3 || rank > 5)
      return m_.refuse("query", fmt::format("expected rank 3, 4 or 5, found {}", describe(query_)));
    for (Value* v : {key_transposed_, value_})
      if (v->tensor_type().rank() != rank)
        return m_.refuse(v == value_ ? "value" : "key", fmt::format("expected rank {}, found {}", rank, describe(v)));
    type_ = query_->element_type();
    if (!is_float(type_) || value_->element_type() != type_)
      return m_.refuse("value", "query and values are not of one float type");
    if (m_.root()->element_type() != type_) return m_.refuse("context cast", "is to another type than the query's");
    const TensorType &q = query_->tensor_type(), &k = key_transposed_->tensor_type(), &v = value_->tensor_type();
    const int grouped = group_axis();
    for (int axis = 0; axis + 2 < rank; ++axis)
      if (axis != grouped && (!may_be_equal(q.dim(axis), k.dim(axis)) || !may_be_equal(q.dim(axis), v.dim(axis))))
        return m_.refuse("scores", fmt::format("query {}, keys {} and values {} are broadcast against each other",
                                               describe(query_), describe(key_transposed_), describe(value_)));
    if (unfolds_groups()) return merge_rows();
    // A mask over (B*H, Tq, Tk) can't be said once heads are an axis of their own.
    if (rank == 3 && (m_.node("unfold") || !MaskReader::any_with_batch(m_))) unfold_heads();
    if ((m_.node("unfold") || m_.node("fold")) && !unfolded_)
      return m_.refuse("unfold", "the scores are reshaped, but query, key and values are not batch x heads folded");
    const Node* unfold = m_.node("unfold");
    if (unfolded_ && unfold && unfold->output()->tensor_type().shape != scores_shape())
      return m_.refuse("unfold",
                       fmt::format("the scores become {}, not those of each head", describe(unfold->output())));
    if (const Node* fold = m_.node("fold weights"); fold && !may_have_shape(*fold->output(), *m_["scores"]))
      return m_.refuse("weights form", "the weights are reshaped to other rows");
    if (grouped == kGroupAxis) return merge_groups();
    if (rank == 5) merge_streams();
    return std::nullopt;
  }

  static bool may_have_shape(const Value& a, const Value& b) {
    const TensorType &x = a.tensor_type(), &y = b.tensor_type();
    if (x.rank() != y.rank()) return false;
    for (int axis = 0; axis < x.rank(); ++axis)
      if (!may_be_equal(x.dim(axis), y.dim(axis))) return false;
    return true;
  }

  // The axis along which keys and values of one head are broadcast to several query heads; -1 if there is none.
  int group_axis() const {
    const int axis = query_->tensor_type().rank() - 3;
    const TensorType &q = query_->tensor_type(), &k = key_transposed_->tensor_type(), &v = value_->tensor_type();
    const auto heads = axis > 0 ? q.dim(axis).constant() : std::nullopt;
    return heads && *heads > 1 && k.dim(axis).is(1) && v.dim(axis).is(1) ? axis : -1;
  }

  // (B, G, r, T, E) against keys and values (B, G, 1, S, E): G groups of r query heads.
  Refusal merge_groups() {
    const Dims q = *query_->tensor_type().shape;
    const auto groups = q[1].constant(), width = q[4].constant(), value_width = value_->tensor_type().dim(4).constant();
    if (!groups || !width || !value_width)
      return m_.refuse("query", "the number of groups of heads, or the width of a head, is not a constant");
    const int64_t repeats = *q[kGroupAxis].constant();
    groups_ = std::vector<int64_t>{0, *groups, repeats, -1, *value_width};
    const Node* t = query_->producer();
    if (t && t->is("Transpose") && t->attr_ints("perm") == std::vector<int64_t>{0, 2, 3, 1, 4}) {
      Value* x = before_reshape(t->input(0), 2);
      query_ = b_.transpose(b_.reshape(x, {0, 0, *groups * repeats, *width}), {0, 2, 1, 3});
    } else {
      query_ = b_.reshape(query_, {0, *groups * repeats, -1, *width});
    }
    key_transposed_ = without_group_axis(key_transposed_);
    value_ = without_group_axis(value_);
    return std::nullopt;
  }

  // Keys or values without the axis of size 1 that is broadcast to the heads of a group.
  Value* without_group_axis(Value* x, int64_t axis = kGroupAxis) {
    const Node* n = x->producer();
    if (n && n->is("Transpose") && !n->attr_ints("perm").empty()) {
      std::vector<int64_t> perm;
      const std::vector<int64_t> whole = n->attr_ints("perm");
      const int64_t before = whole[static_cast<size_t>(axis)];
      for (const int64_t p : whole)
        if (p != before) perm.push_back(p > before ? p - 1 : p);
      return b_.transpose(without_group_axis(n->input(0), before), perm);
    }
    Dims rest = *x->tensor_type().shape;
    rest.erase(rest.begin() + axis);
    const bool added = n && n->is("Unsqueeze") && n->input(0)->tensor_type().shape == rest;
    return added ? n->input(0) : b_.squeeze(x, {axis});
  }

  // Query heads as rows, whose scores are reshaped to (B, G, r, T, S), or another of those orders, around masks.
  bool unfolds_groups() {
    const Node *unfold = m_.node("unfold"), *fold = m_.node("fold weights");
    if (!unfold && fold) unfold = m_.node("fold");  // no mask tells one from the other
    if (!fold) fold = m_.node("fold");
    const auto& scores = m_["scores"]->tensor_type().shape;  // of known operands
    if (!unfold || !fold || !unfold->output()->tensor_type().shape || fold->output()->tensor_type().shape != scores)
      return false;
    std::vector<const Value*> masks;
    for (const char* step : kMaskSteps)
      if (m_[step]) masks.push_back(m_[step]);
    rows_ = row_groups(*scores, *unfold->output()->tensor_type().shape, masks);
    return rows_.has_value();
  }

  Refusal merge_rows() {
    if (!query_->tensor_type().dim(-1).constant() || !value_->tensor_type().dim(-1).constant())
      return m_.refuse("query", "the width of a head is not a constant");
    query_ = heads_of_rows(b_, query_, *rows_);
    return std::nullopt;
  }

  // A mask over (B, G, r, T, S) as one over (B, G r, T, S).
  Refusal mask_without_groups(Value*& mask) {
    if (!mask) return std::nullopt;
    mask = mask_of_heads(b_, mask, rows_ ? *rows_ : RowGroups{groups_->at(1), groups_->at(2), false});
    if (!mask) return m_.refuse("mask", "is not the same for all groups of heads");
    return std::nullopt;
  }

  // (B, N, H, T, E), attention in N streams (ProphetNet's n-grams): N is a part of the batch.
  void merge_streams() {
    streams_of_ = query_;
    value_of_streams_ = value_;
    for (Value** v : {&query_, &key_transposed_, &value_}) *v = fold_streams(b_, *v);
  }

  // A mask over streams repeats over those of its axes that have size 1.
  Value* mask_without_streams(Value* mask) {
    if (!mask || mask->tensor_type().rank() < 4) return mask;
    Value* streams = b_.op("Slice", {b_.op("Shape", {streams_of_}), b_.integers({0}), b_.integers({2})});
    Value* target = b_.op("Concat", {streams, b_.integers({1, 1, 1})}, {{"axis", int64_t{0}}});
    return fold_streams(b_, b_.op("Expand", {mask, target}));
  }

  // The scores in front of masks: with heads unfolded they are what the Reshape around the mask gives.
  const Value& scores() const {
    if (const Node* unfold = m_.node("unfold"); (unfolded_ || rows_) && unfold) return *unfold->output();
    const Value* row = m_["row scores"];
    return row ? *row : *m_["scores"];
  }

  // (B, H, Tq, Tk) by the operands.
  Dims scores_shape() const {
    const TensorType &q = query_->tensor_type(), &raw = m_["scores"]->tensor_type();
    return {q.dim(0), q.dim(1), raw.dim(-2), raw.dim(-1)};
  }

  bool row_of_heads() const { return row_ && query_->tensor_type().rank() == 4; }

  // Scores (B, Tk) or (B, H, Tk) of a single query, and their weights as a row again.
  Refusal read_row() {
    row_ = m_.node("row scores") != nullptr;
    if (row_ != (m_.node("row weights") != nullptr))
      return m_.refuse("weights form", row_ ? "the weights of one query are not made a row again"
                                            : "the weights get an axis that the scores don't have");
    if (!row_) return std::nullopt;
    const TensorType& weights = m_.node("row weights")->output()->tensor_type();
    const int rank = query_->tensor_type().rank(), of_queries = rank - 2;
    Dims row = *m_["scores"]->tensor_type().shape;
    row.erase(row.begin() + of_queries);
    if (!query_->tensor_type().dim(of_queries).is(1) || scores().tensor_type().shape != row || weights.rank() != rank ||
        !weights.dim(of_queries).is(1))
      return m_.refuse("row scores", fmt::format("{} are not the scores of one query", scores().type().to_string()));
    return std::nullopt;
  }

  // Batch and heads folded into one axis (old BART, TrOCR): the operands before their Reshape. Keys and values whose
  // batch has another name, so that their Reshape is no fold by sizes, are split as the queries are.
  void unfold_heads() {
    Value* q = before_fold(query_);
    if (!q || !q->tensor_type().dim(1).constant()) return;
    const Dim heads = q->tensor_type().dim(1);
    const auto apart = [&](Value* x) -> Value* {
      Value* before = before_fold(x);
      if (before && before->tensor_type().dim(1) == heads) return before;
      // Rows of another name may be one, that is broadcast to all batches and heads.
      const bool folded =
          x->producer() && x->producer()->is("Reshape") && x->tensor_type().dim(0) == query_->tensor_type().dim(0);
      if (!folded) return nullptr;
      Value* sizes = b_.op("Slice", {b_.op("Shape", {x}), b_.integers({1}), b_.integers({3})});
      return b_.op("Reshape",
                   {x, b_.op("Concat", {b_.integers({-1, *heads.constant()}), sizes}, {{"axis", int64_t{0}}})});
    };
    Value* v = apart(value_);
    Value* k = nullptr;
    if (const Node* t = key_transposed_->producer();
        t && t->is("Transpose") && t->attr_ints("perm") == std::vector<int64_t>{0, 2, 1})
      k = apart(t->input(0));
    Value* kt = k ? nullptr : apart(key_transposed_);
    if (!v || (!k && !kt)) return;
    unfolded_ = true;
    folded_query_ = query_;
    query_ = q;
    value_ = v;
    key_ = k;
    key_transposed_ = kt;
  }

  static Value* before_fold(const Value* v) {
    const Node* n = v->producer();
    if (!n || !n->is("Reshape")) return nullptr;
    Value* x = n->input(0);
    const TensorType &from = x->tensor_type(), &to = v->tensor_type();
    if (from.rank() != 4) return nullptr;
    // The first axis is then what is left of the elements: batch times heads.
    const bool folds = from.dim(2) == to.dim(1) && from.dim(3) == to.dim(2);
    return folds ? x : nullptr;
  }

  Refusal read_scale() {
    for (const char* step : {"query scaling", "key scaling", "first scaling", "scaling"}) {
      const size_t choice = m_.choice(step);
      if (choice == kUnscaled) continue;
      const double number = *m_.number(std::string(step) + " factor");
      scale_ = choice == kMultiplied ? scale_ * number : scale_ / number;
    }
    if (!std::isfinite(scale_) || scale_ < 0)
      return m_.refuse("scaling factor", fmt::format("the scale {} is negative or not finite", scale_));
    return std::nullopt;
  }

  // A number added to all scores changes no weight, unless they are lost in it.
  Refusal read_cap() {
    if (m_.node("capped scores")) softcap_ = *m_.number("softcap");
    if (m_.node("capped scores") && !(std::isfinite(softcap_) && softcap_ > 0))
      return m_.refuse("softcap", fmt::format("{} is not positive, or not finite", softcap_));
    const double shift = m_.node("shift") ? *m_.number("shift number") : 0;
    if (!(std::abs(shift) < kLargestShift))
      return m_.refuse("shift", fmt::format("scores are lost in the number {:.6g} that is added to them", shift));
    return std::nullopt;
  }

  Refusal read_shown(const MaskReader& mask) {
    const Node *scaled = m_.node("scaled scores"), *capped = m_.node("capped scores"), *shift = m_.node("shift");
    const bool is_raw = !scaled && !row_;
    std::vector<ShownValue> values{{m_["scores"], is_raw ? "raw" : ""}};
    if (scaled) values.push_back({scaled->output(), "raw"});
    if (capped) values.push_back({capped->output(), "capped"});
    for (const ShownValue& v : mask.masked()) values.push_back({v.value, shift ? "" : v.output});
    for (const ShownValue& v : weights_of(m_)) values.push_back(v);
    if (auto refusal = find_shown(m_, values, type_, shown_)) return refusal;
    row_wanted_ = row_ && is_used_outside(m_, *m_.node("row weights")->output());
    if (row_wanted_ && shown_.value && shown_.output != "normalized")
      return m_.refuse("softmax", "both scores and weights are also used outside of the attention");
    if (row_wanted_ && m_.node("row weights")->output()->element_type() != type_)
      return m_.refuse("softmax", "is also used outside of the attention, in another type");
    if (shown_.value && streams_of_)
      return m_.refuse("softmax", "is also used outside of the attention, over several streams");
    if (shown_.value && (groups_ || rows_))
      return m_.refuse("softmax", "is also used outside of the attention, over groups of heads");
    return std::nullopt;
  }

  Outcome build(const MaskReader& mask, Value* folded_mask) {
    AttentionParts parts;
    const int rank = query_->tensor_type().rank();
    parts.inputs[kAttentionQuery] = query_;
    parts.inputs[kAttentionKey] = key_ ? key_ : b_.transpose(key_transposed_, swap_last(rank));
    parts.inputs[kAttentionValue] = value_;
    parts.inputs[kAttentionMask] = folded_mask;
    parts.attributes["scale"] = static_cast<float>(scale_);
    if (mask.mean_if_empty()) parts.attributes["empty_row"] = std::string("mean");
    const auto heads = query_->tensor_type().dim(1).constant();
    if (rank == 3) parts.attributes["num_heads"] = rows_ ? rows_->heads : int64_t{1};
    if (rank == 3 && rows_) parts.attributes["num_kv_heads"] = int64_t{1};
    if (rank == 4 && heads) parts.attributes["num_heads"] = *heads;
    if (const auto groups = value_->tensor_type().dim(1).constant(); rank == 4 && heads && groups && *groups != *heads)
      parts.attributes["num_kv_heads"] = *groups;
    if (softcap_ > 0) parts.attributes["softcap"] = static_cast<float>(softcap_);
    if (shown_.value && shown_.output != "normalized") parts.attributes["weights_output"] = shown_.output;
    const Node* node = parts.build(b_);
    Outcome outcome(result(*node));
    if (shown_.value) outcome.also(shown_.value, weights(*node));
    if (row_wanted_) {
      Value* all = node->output(kAttentionWeights);
      outcome.also(m_.node("row weights")->output(), row_of_heads() ? all : b_.squeeze(all, {1}));
    }
    return outcome.detail(fmt::format("scale {:.6g}", scale_)).detail(mask.description());
  }

  // Scores or weights in the shape that they had.
  Value* weights(const Node& node) {
    Value* all = node.output(kAttentionWeights);
    if (row_of_heads()) return b_.squeeze(all, {2});
    if (row_) return b_.squeeze(all, {1, 2});
    if (unfolded_ && shown_.value->tensor_type().rank() == 3) {  // batch and heads folded
      Value* sizes = b_.op("Slice", {b_.op("Shape", {all}), b_.integers({2}), b_.integers({4})});
      return b_.op("Reshape", {all, b_.op("Concat", {b_.integers({-1}), sizes}, {{"axis", int64_t{0}}})});
    }
    return query_->tensor_type().rank() == 3 ? b_.squeeze(all, {1}) : all;
  }

  static std::vector<int64_t> swap_last(int rank) {
    return rank == 4 ? std::vector<int64_t>{0, 1, 3, 2} : std::vector<int64_t>{0, 2, 1};
  }

  Value* result(const Node& node) {
    if (rows_)
      return rows_of_heads(b_, node.output(kAttentionContext), *rows_, *value_->tensor_type().dim(-1).constant());
    if (groups_) return b_.reshape(node.output(kAttentionContext), *groups_);
    if (streams_of_) {
      Value* sizes = b_.op("Slice", {b_.op("Shape", {streams_of_}), b_.integers({0}), b_.integers({4})});
      Value* width = b_.op("Slice", {b_.op("Shape", {value_of_streams_}), b_.integers({4}), b_.integers({5})});
      return reshape_to_sizes(b_, node.output(kAttentionContext),
                              b_.op("Concat", {sizes, width}, {{"axis", int64_t{0}}}));
    }
    if (!unfolded_) return node.output(kAttentionContext);
    // Back to (B*H, Tq, F), as the users expect; their own Reshape usually undoes it.
    Value* sizes = b_.op("Slice", {b_.op("Shape", {folded_query_}), b_.integers({0}), b_.integers({2})});
    const Dim width = value_->tensor_type().dim(3);
    Value* last = width.constant() ? b_.integers({*width.constant()})
                                   : b_.op("Slice", {b_.op("Shape", {value_}), b_.integers({3}), b_.integers({4})});
    return b_.op("Reshape", {node.output(kAttentionContext), b_.op("Concat", {sizes, last}, {{"axis", int64_t{0}}})});
  }

  static std::string describe(const Value* v) { return v->type().to_string(); }

  const Match& m_;
  Builder& b_;
  Value *query_ = nullptr, *key_ = nullptr, *key_transposed_ = nullptr, *value_ = nullptr, *folded_query_ = nullptr;
  Value *streams_of_ = nullptr, *value_of_streams_ = nullptr;  // of rank 5, as they came
  std::optional<RowGroups> rows_;                              // of queries that are heads
  std::optional<std::vector<int64_t>> groups_;                 // the target that gives the context groups of heads
  DataType type_ = DataType::kUndefined;
  double scale_ = 1, softcap_ = 0;
  ShownValue shown_;
  bool unfolded_ = false, row_ = false, row_wanted_ = false;
};

pattern::Rule rule(bool in_float) {
  return {"fuse_attention",
          attention_pattern(in_float),
          [](const Match& m, Builder& b) { return AttentionRewrite(m, b).run(); },
          {"Softmax"},
          [](const Node& softmax) { return !has_column_scores(softmax); }};
}

}  // namespace

pattern::Rule rules::attention() { return rule(false); }

size_t fuse_attention(PassContext& context) {
  const std::vector<pattern::Rule> list = {rule(true), rules::attention()};
  return pattern::apply_rules(list, context);
}

}  // namespace attune
