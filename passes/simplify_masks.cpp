// Attention(..., mask) whose mask is proven to be causal, padding of keys, both, or nothing
#include <fmt/format.h>

#include <cmath>
#include <set>

#include "passes/attention_node.h"
#include "passes/mask_analysis.h"
#include "passes/passes.h"

namespace attune {
namespace {

using pattern::any;
using pattern::Builder;
using pattern::Match;
using pattern::Outcome;

// A filler from here on excludes a position where the row sees something.
constexpr double kLargestFiller = -1e4;

// A filler that absorbs every score of the type: a row of nothing else is the mean.
bool absorbs(double filler, DataType type) {
  if (type == DataType::kFloat16) return filler <= -65504;
  return filler <= -1e9;
}

class MaskRewrite {
 public:
  MaskRewrite(const Match& m, Builder& b) : m_(m), b_(b), parts_(*m.node("attention")) {}

  Outcome run() {
    mask_ = parts_.inputs[kAttentionMask];
    if (!mask_) return m_.refuse("attention", "has no mask");
    for (const AttentionInput i : {kAttentionKeyLengths, kAttentionPosition, kAttentionQueryPosition})
      if (parts_.inputs[i]) return m_.refuse("attention", "has positions beside the mask");
    if (parts_.attributes.contains("causal") || parts_.attributes.contains("window"))
      return m_.refuse("attention", "is causal beside the mask");
    if (!is_condition() && is_used(*m_.node("attention"), kAttentionWeights) &&
        m_.node("attention")->attr_string("weights_output", "") == "biased")
      return m_.refuse("attention", "shows its scores with the mask added");
    tree_ = analyze_mask(*mask_, m_.inference());
    if (!tree_) return m_.refuse("mask", "it is not computed from positions and input masks alone");
    if (const std::string reason = classify(); !reason.empty()) return m_.refuse("mask", reason);
    if (is_simple_already()) return m_.refuse("mask", "is in its simplest form");
    return build();
  }

 private:
  bool is_condition() const { return mask_->element_type() == DataType::kBool; }

  // Whether the leaf lets the position be seen; nothing if it does neither that nor exclude it.
  std::optional<bool> sees(double leaf) const {
    if (is_condition()) return leaf != 0;
    if (leaf == 0) return true;
    return leaf <= kLargestFiller ? std::optional(false) : std::nullopt;
  }

  // Symbols of the axes that the mask has; an axis of size 1 has index 0.
  Dim index(int from_end) const {
    const int rank = mask_->tensor_type().rank();
    if (from_end > rank || mask_->tensor_type().dim(-from_end).is(1)) return Dim(0);
    return index_symbol(static_cast<size_t>(rank - from_end));
  }

  // Whether an input mask has the batch and the keys of the mask.
  bool covers(const Value& input) const {
    const TensorType &from = input.tensor_type(), &to = mask_->tensor_type();
    return from.rank() == 2 && from.dim(1) == to.dim(-1) &&
           (to.rank() == 4 ? from.dim(0) == to.dim(0) : from.dim(0).is(1));
  }

  Dim past() const {
    return parts_.inputs[kAttentionPastKey] ? parts_.inputs[kAttentionPastKey]->tensor_type().dim(2) : Dim(0);
  }

  std::string classify() {
    for (const MaskAtom& atom : MaskTree::atoms(tree_)) {
      if (atom.input) {
        if (padding_) return "it depends on more than one input mask";
        if (atom.indices != Dims{index(4), index(1)} || !covers(*atom.input))
          return "it reads an input mask at other places than (batch, key)";
        padding_ = atom;
      } else {
        if (causal_) return "it compares positions in more than one way";
        const Dim hidden = index(1) - index(2) - past() - 1;  // >= 0: the key comes after the query
        if (!(atom.expression == hidden) && !(atom.expression == Dim(-1) - hidden))
          return fmt::format("it compares positions in a way that is not causal: {} >= 0", atom.expression.to_string());
        causal_ = atom;
        visible_if_true_ = !(atom.expression == hidden);
      }
    }
    return check_leaves();
  }

  // The mask is the conjunction of what it asks, and its fillers are one that can be said.
  std::string check_leaves() {
    for (const bool padding_is_one : {true, false}) {
      std::set<double> fillers;
      if (is_conjunction(padding_is_one, fillers)) {
        padded_where_zero_ = padding_is_one;
        return check_fillers(fillers);
      }
    }
    return "it is not a conjunction of causality and one input mask";
  }

  bool is_conjunction(bool padding_is_one, std::set<double>& fillers) const {
    for (const bool c : {false, true})
      for (const bool p : {false, true}) {
        std::map<std::string, bool> answers;
        if (causal_) answers[causal_->key()] = c;
        if (padding_) answers[padding_->key()] = p;
        const double leaf = MaskTree::evaluate(tree_, answers);
        const auto seen = sees(leaf);
        const bool wanted = (!causal_ || c == visible_if_true_) && (!padding_ || p == padding_is_one);
        if (seen != wanted) return false;
        if (!wanted) fillers.insert(leaf);
      }
    return true;
  }

  std::string check_fillers(const std::set<double>& fillers) {
    if (is_condition() || fillers.empty()) return {};
    const TensorType& type = mask_->tensor_type();
    const bool sees_itself = !padding_ && type.dim(-1) == past() + type.dim(-2);
    if (sees_itself) return {};
    if (fillers.size() > 1) return "it has two fillers, and a row may see nothing";
    const double filler = *fillers.begin();
    if (std::isinf(filler)) return {};
    if (!absorbs(filler, mask_->element_type()))
      return fmt::format("its filler {:g} doesn't absorb scores, and a row may see nothing", filler);
    mean_if_empty_ = true;
    return {};
  }

  bool is_simple_already() const {
    return is_condition() && !causal_ && padding_ && mask_->tensor_type().dim(-2).is(1);
  }

  Outcome build() {
    parts_.inputs[kAttentionMask] = padding_ ? padding_mask() : nullptr;
    if (causal_) parts_.attributes["causal"] = int64_t{1};
    if (mean_if_empty_) parts_.attributes["empty_row"] = std::string("mean");
    const Node& before = *m_.node("attention");
    const Node* now = parts_.build(b_);
    Outcome outcome(now->output(kAttentionContext));
    carry_outputs(before, *now, outcome);
    if (causal_) outcome.detail("causal");
    if (padding_) outcome.detail("an input mask over keys");
    if (!causal_ && !padding_) outcome.detail("no mask");
    return outcome;
  }

  // (B, 1, 1, Tk)
  Value* padding_mask() {
    auto* input = const_cast<Value*>(padding_->input);
    Value* condition = input;
    if (input->element_type() != DataType::kBool)
      condition = b_.op("Cast", {condition}, {{"to", static_cast<int64_t>(DataType::kBool)}});
    if (!padded_where_zero_) condition = b_.op("Not", {condition});
    return b_.unsqueeze(condition, {1, 2});
  }

  const Match& m_;
  Builder& b_;
  AttentionParts parts_;
  Value* mask_ = nullptr;
  MaskTreePtr tree_;
  std::optional<MaskAtom> causal_, padding_;
  bool visible_if_true_ = false;  // of the causal atom
  bool padded_where_zero_ = true;
  bool mean_if_empty_ = false;
};

pattern::Rule mask_rule() {
  return {"simplify_masks",
          attention_of(any("query"), any("key"), any("value")),
          [](const Match& m, Builder& b) { return MaskRewrite(m, b).run(); },
          {"ai.attune.Attention"},
          [](const Node& n) {
            return n.input(kAttentionMask) && n.input(kAttentionMask)->element_type() != DataType::kBool;
          }};
}

}  // namespace

size_t simplify_masks(PassContext& context) {
  const std::vector<pattern::Rule> list = {mask_rule()};
  const size_t changes = pattern::apply_rules(list, context);
  for (const NearMiss& left : pattern::explain_anchors(list, context.model))
    context.report.notes.push_back(fmt::format("{}: its mask stays a float mask: {}", left.anchor, left.reason));
  return changes;
}

}  // namespace attune
