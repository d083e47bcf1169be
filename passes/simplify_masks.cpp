// Attention(..., mask) whose mask is proven to be causal, lengths of keys, padding of keys, several of these, or
// nothing; else as a condition, where it only sees and excludes
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "passes/attention_node.h"
#include "passes/attention_scores.h"
#include "passes/mask_analysis.h"
#include "passes/passes.h"
#include "passes/size_builder.h"
#include "passes/uniform_value.h"

namespace attune {
namespace {

using pattern::any;
using pattern::Builder;
using pattern::Match;
using pattern::Outcome;

// A filler from here on excludes a position where the row sees something.
constexpr double kLargestFiller = -1e4;

// What a mask asks about a query and a key.
enum class Question {
  kCausal,   // key <= query + offset
  kLengths,  // key < lengths
  kPadding   // an input mask
};

struct Condition {
  Question question;
  std::string key;       // of its atom
  bool seen_if = true;   // the answer that lets a position be seen
  Dim bound;             // the offset, or the length
  const MaskAtom* atom;  // kPadding
};

class MaskRewrite {
 public:
  MaskRewrite(const Match& m, Builder& b, Graph& outermost)
      : m_(m), b_(b), sizes_(outermost, &b.inference()), parts_(*m.node("attention")) {}

  Outcome run() {
    mask_ = parts_.inputs[kAttentionMask];
    if (!mask_) return m_.refuse("attention", "has no mask");
    for (const AttentionInput i : {kAttentionKeyLengths, kAttentionPosition, kAttentionQueryPosition})
      if (parts_.inputs[i]) return m_.refuse("attention", "has positions beside the mask");
    if (parts_.attributes.contains("causal") || parts_.attributes.contains("window"))
      return m_.refuse("attention", "is causal beside the mask");
    const std::string reason = read(mask_);
    if (!reason.empty()) {
      Value* whole = mask_;
      if (take_summand()) return build();
      mask_ = whole;
      read(whole);
      return meaning_.tree ? as_condition(reason) : m_.refuse("mask", reason);
    }
    if (is_simple_already()) return m_.refuse("mask", "is in its simplest form");
    return build();
  }

 private:
  // Reads what `mask` asks; gives the reason if that can't be said.
  std::string read(Value* mask) {
    mask_ = mask;
    conditions_.clear();
    atoms_.clear();
    fillers_.clear();
    mean_if_empty_ = false;
    meaning_ = analyze_mask(*mask, m_.inference());
    if (!meaning_.tree) return "it is not computed from positions and input masks alone";
    atoms_ = MaskTree::atoms(meaning_.tree);
    return classify();
  }

  // Of a sum (a position bias and a causal mask), the summand that is causality or lengths; the other one stays.
  bool take_summand() {
    const Node* sum = mask_->producer();
    if (!sum || !sum->is("Add")) return false;
    for (const size_t i : {0, 1}) {
      if (!read(sum->input(i)).empty() || condition(Question::kPadding)) continue;
      // A summand that excludes by itself would count in rows where both exclude.
      const bool excludes_alone = std::all_of(fillers_.begin(), fillers_.end(), [](double f) { return std::isinf(f); });
      if (!excludes_alone && !is_small(*sum->input(1 - i))) continue;
      rest_ = sum->input(1 - i);
      return true;
    }
    return false;
  }

  // Numbers out of a constant table, none of which could exclude a position.
  static bool is_small(const Value& v, int depth = 0) {
    if (const Tensor* t = v.constant()) {
      const std::vector<double> values = t->to_contiguous().to_double();
      return std::all_of(values.begin(), values.end(), [](double x) { return std::abs(x) < -kLargestFiller; });
    }
    const Node* n = v.producer();
    if (!n || depth > 8) return false;
    for (const char* type :
         {"Gather", "Transpose", "Unsqueeze", "Squeeze", "Reshape", "Slice", "Expand", "Cast", "Identity"})
      if (n->is(type)) return is_small(*n->input(0), depth + 1);
    return false;
  }

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

  // Whether an input mask of rank 2 has the batch and the keys of the mask.
  bool covers(const Value& input) const {
    const TensorType &from = input.tensor_type(), &to = mask_->tensor_type();
    return from.dim(1) == to.dim(-1) && (to.rank() == 4 ? from.dim(0) == to.dim(0) : from.dim(0).is(1));
  }

  Dim past() const {
    return parts_.inputs[kAttentionPastKey] ? parts_.inputs[kAttentionPastKey]->tensor_type().dim(2) : Dim(0);
  }

  const Condition* condition(Question question) const {
    for (const Condition& c : conditions_)
      if (c.question == question) return &c;
    return nullptr;
  }

  std::string classify() {
    for (const MaskAtom& atom : atoms_) {
      Condition c{Question::kPadding, atom.key(), true, {}, &atom};
      if (std::string reason = atom.input ? read_padding(atom) : read_comparison(atom, c); !reason.empty())
        return reason;
      if (condition(c.question)) return "it asks the same kind of question in more than one way";
      conditions_.push_back(std::move(c));
    }
    return check_leaves();
  }

  std::string read_padding(const MaskAtom& atom) const {
    if (atom.indices != Dims{index(4), index(1)} || !covers(*atom.input))
      return "it reads an input mask at other places than (batch, key)";
    return {};
  }

  // expression >= 0 as key <= query + offset, or key < length.
  std::string read_comparison(const MaskAtom& atom, Condition& c) const {
    const std::string other =
        fmt::format("it compares positions in a way that is not causal: {} >= 0", in_words(atom.expression));
    const Dim key = index(1), query = index(2);
    const auto key_sign = sign_of(atom.expression, key), query_sign = sign_of(atom.expression, query);
    if (key_sign == 0 || (query_sign != 0 && query_sign != -key_sign)) return other;
    c.seen_if = key_sign < 0;
    // The expression where the position is seen: query + bound - key, or bound - 1 - key.
    const Dim seen = c.seen_if ? atom.expression : Dim(-1) - atom.expression;
    c.question = query_sign != 0 || key.is(0) ? Question::kCausal : Question::kLengths;
    c.bound = c.question == Question::kCausal ? seen + key - query : seen + key + 1;
    for (const std::string& symbol : c.bound.symbols())
      if (symbol.starts_with("@")) return other;
    if (!counts_positions(c.question)) return "its size may be 1, for all positions, where that of the states is not";
    return can_say(c) ? std::string() : other;
  }

  // Whether indices of the mask are positions of the attention's keys and queries: it isn't broadcast along them.
  bool counts_positions(Question question) const {
    const TensorType &query = parts_.inputs[kAttentionQuery]->tensor_type(),
                     &key = parts_.inputs[kAttentionKey]->tensor_type(), &mask = mask_->tensor_type();
    // What is sliced out of a table for the longest sequence has its size at most.
    const auto counts = [](const Dim& of_mask, const Dim& of_states) {
      return of_mask == of_states || of_mask.clips(of_states);
    };
    if (!counts(mask.dim(-1), past() + key.dim(-2))) return false;
    return question == Question::kLengths || counts(mask.dim(-2), query.dim(-2));
  }

  // With the names of tensors and axes in place of symbols.
  std::string in_words(const Dim& e) const {
    std::string text = e.to_string();
    const auto replace = [&](const std::string& symbol, const std::string& name) {
      for (size_t at = text.find(symbol); at != std::string::npos; at = text.find(symbol, at + name.size()))
        text.replace(at, symbol.size(), name);
    };
    for (const auto& [symbol, element] : meaning_.elements) replace(symbol, std::string(element.tensor->name()));
    const auto rank = static_cast<size_t>(mask_->tensor_type().rank());
    for (size_t axis = 0; axis < rank; ++axis)
      replace(index_symbol(axis).as_symbol(), axis + 1 == rank   ? "key"
                                              : axis + 2 == rank ? "query"
                                                                 : fmt::format("index {}", axis));
    return text;
  }

  // 1, -1 or 0: the factor of an index in a sum; 0 for other factors, too.
  static int sign_of(const Dim& e, const Dim& index) {
    const auto summands = e.summands();
    if (!summands || index.is(0)) return 0;
    for (const Dim::Summand& s : *summands)
      if (s.symbols.size() == 1 && s.symbols[0] == index.as_symbol() && std::abs(s.factor) == 1)
        return static_cast<int>(s.factor);
    return 0;
  }

  // Whether the bound can be given as an input: a size, or an element of a tensor, one for each batch or for all.
  bool can_say(const Condition& c) const {
    if (c.question == Question::kCausal && c.bound == past()) return true;
    Dim sizes = c.bound;
    if (const IntegerElement* e = element_in(c.bound, sizes)) {
      const TensorType &type = e->tensor->tensor_type(), &mask = mask_->tensor_type();
      const bool one = type.rank() == 0 || type.dim(0).is(1);
      if (!one && (e->indices != Dims{index(4)} || mask.rank() != 4 || !(type.dim(0) == mask.dim(0)))) return false;
    }
    return sizes_.can_compute(sizes);
  }

  // The element of an integer tensor that is a summand of `bound`, and what is left of it; null if there is none.
  const IntegerElement* element_in(const Dim& bound, Dim& rest) const {
    for (const auto& [symbol, element] : meaning_.elements) {
      if (sign_of(bound, Dim::symbol(symbol)) != 1) continue;
      rest = bound - Dim::symbol(symbol);
      return &element;
    }
    return nullptr;
  }

  // The mask is the conjunction of what it asks, and its fillers are one that can be said.
  std::string check_leaves() {
    for (const bool padded_where_zero : {true, false}) {
      for (Condition& c : conditions_)
        if (c.question == Question::kPadding) c.seen_if = padded_where_zero;
      std::set<double> fillers;
      if (is_conjunction(fillers)) {
        fillers_ = fillers;
        return check_fillers(fillers, sees_something());
      }
    }
    return "it is not a conjunction of causality, lengths and one input mask";
  }

  bool is_conjunction(std::set<double>& fillers) const {
    for (size_t bits = 0; bits < size_t{1} << conditions_.size(); ++bits) {
      std::map<std::string, bool> answers;
      bool wanted = true;
      for (size_t i = 0; i < conditions_.size(); ++i) {
        const bool answer = (bits >> i & 1) != 0;
        answers[conditions_[i].key] = answer;
        wanted = wanted && answer == conditions_[i].seen_if;
      }
      const double leaf = MaskTree::evaluate(meaning_.tree, answers);
      if (sees(leaf) != wanted) return false;
      if (!wanted) fillers.insert(leaf);
    }
    return true;
  }

  // Whether each row is proven to see a position.
  bool sees_something() const {
    if (conditions_.size() != 1 || conditions_[0].question != Question::kCausal) return false;
    const Dim& offset = conditions_[0].bound;
    if (offset == past()) return mask_->tensor_type().dim(-1) == past() + mask_->tensor_type().dim(-2);
    Dim rest;
    return !element_in(offset, rest) && offset.at_least(0);
  }

  // Scores are given with the mask added.
  bool shows_fillers() const {
    const Node& attention = *m_.node("attention");
    return attention.output(kAttentionWeights) && attention.attr_string("weights_output", "normalized") == "biased";
  }

  std::string check_fillers(const std::set<double>& fillers, bool sees_something) {
    if (!is_condition() && shows_fillers() &&
        std::any_of(fillers.begin(), fillers.end(), [](double f) { return !std::isinf(f); }))
      return "its filler is part of the scores that are given";
    if (is_condition() || sees_something) return {};
    if (fillers.size() > 1) return "it has two fillers, and a row may see nothing";
    for (const double filler : fillers) {
      if (std::isinf(filler)) continue;
      if (!absorbs_scores(filler, mask_->element_type()))
        return fmt::format("its filler {:g} doesn't absorb scores, and a row may see nothing", filler);
      mean_if_empty_ = true;
    }
    return {};
  }

  bool is_simple_already() const {
    return is_condition() && conditions_.size() == 1 && conditions_[0].question == Question::kPadding &&
           mask_->tensor_type().dim(-2).is(1);
  }

  // A float mask that only sees and excludes, as a bool mask.
  Outcome as_condition(const std::string& reason) {
    if (is_condition()) return m_.refuse("mask", reason);
    std::set<double> fillers;
    for (const double leaf : MaskTree::leaves(meaning_.tree)) {
      const auto seen = sees(leaf);
      if (!seen) return m_.refuse("mask", reason);
      if (!*seen) fillers.insert(leaf);
    }
    if (std::string other = check_fillers(fillers, false); !other.empty()) return m_.refuse("mask", other);
    parts_.inputs[kAttentionMask] = where_it_sees();
    Outcome outcome = finish();
    return outcome.detail("a condition as mask: " + reason);
  }

  // Where a mask that only sees and excludes is 0: the condition that it was made of, if it shows.
  Value* where_it_sees() {
    if (const Node* n = mask_->producer(); n && n->is("Where")) {
      const auto yes = uniform_value(n->input(1), m_.inference()), no = uniform_value(n->input(2), m_.inference());
      if (yes && no && *yes == 0) return n->input(0);
      if (yes && no && *no == 0) return b_.op("Not", {n->input(0)});
    }
    return b_.op("Equal", {mask_, b_.scalar(0, mask_->element_type())});
  }

  Outcome build() {
    const Condition *padding = condition(Question::kPadding), *causal = condition(Question::kCausal),
                    *lengths = condition(Question::kLengths);
    parts_.inputs[kAttentionMask] = padding ? padding_mask(*padding) : rest_;
    if (lengths) parts_.inputs[kAttentionKeyLengths] = per_batch(lengths->bound);
    if (causal) {
      parts_.attributes["causal"] = int64_t{1};
      if (!(causal->bound == past())) parts_.inputs[kAttentionQueryPosition] = per_batch(causal->bound);
    }
    Outcome outcome = finish();
    if (causal)
      outcome.detail(causal->bound == past() ? std::string("causal")
                                             : "causal from position " + describe(causal->bound));
    if (lengths) outcome.detail("lengths of keys");
    if (padding) outcome.detail("an input mask over keys");
    if (conditions_.empty()) outcome.detail("no mask");
    if (rest_) outcome.detail("an added mask");
    return outcome;
  }

  Outcome finish() {
    if (mean_if_empty_) parts_.attributes["empty_row"] = std::string("mean");
    const Node& before = *m_.node("attention");
    const Node* now = parts_.build(b_);
    Outcome outcome(now->output(kAttentionContext));
    carry_outputs(before, *now, outcome);
    return outcome;
  }

  std::string describe(const Dim& bound) const {
    Dim rest = bound;
    const IntegerElement* e = element_in(bound, rest);
    if (!e) return bound.to_string();
    const std::string name = fmt::format("'{}'", e->tensor->name());
    return rest.is(0) ? name : name + " + " + rest.to_string();
  }

  // An int64 tensor (B) with the bound.
  Value* per_batch(const Dim& bound) {
    Dim rest = bound;
    const IntegerElement* e = element_in(bound, rest);
    Value* v = nullptr;
    if (e) {
      v = const_cast<Value*>(e->tensor);
      if (v->element_type() != DataType::kInt64)
        v = b_.op("Cast", {v}, {{"to", static_cast<int64_t>(DataType::kInt64)}});
      if (!rest.is(0)) v = b_.op("Add", {v, sizes_.vector({rest})});
    } else {
      v = sizes_.vector({rest});
    }
    // The batch is that of the queries, or of the keys, where one of them has a row for all.
    for (Value* states : {parts_.inputs[kAttentionQuery], parts_.inputs[kAttentionKey]}) {
      if (v->tensor_type().rank() == 1 && v->tensor_type().dim(0) == states->tensor_type().dim(0)) continue;
      Value* batch = b_.op("Slice", {b_.op("Shape", {states}), b_.integers({0}), b_.integers({1})});
      v = b_.op("Expand", {v, batch});
    }
    return v;
  }

  // (B, 1, 1, Tk)
  Value* padding_mask(const Condition& padding) {
    auto* condition = const_cast<Value*>(padding.atom->input);
    if (condition->element_type() != DataType::kBool)
      condition = b_.op("Cast", {condition}, {{"to", static_cast<int64_t>(DataType::kBool)}});
    if (!padding.seen_if) condition = b_.op("Not", {condition});
    return b_.unsqueeze(condition, {1, 2});
  }

  const Match& m_;
  Builder& b_;
  SizeBuilder sizes_;
  AttentionParts parts_;
  Value *mask_ = nullptr, *rest_ = nullptr;  // what is read, and a summand that stays
  MaskMeaning meaning_;
  std::vector<MaskAtom> atoms_;
  std::vector<Condition> conditions_;
  std::set<double> fillers_;
  bool mean_if_empty_ = false;
};

pattern::Rule mask_rule(Graph& outermost) {
  return {"simplify_masks",
          attention_of(any("query"), any("key"), any("value")),
          [&outermost](const Match& m, Builder& b) { return MaskRewrite(m, b, outermost).run(); },
          {"ai.attune.Attention"},
          [](const Node& n) {
            const Value* mask = n.input(kAttentionMask);
            return mask && mask->element_type() != DataType::kBool && !n.has("causal");
          }};
}

}  // namespace

size_t simplify_masks(PassContext& context) {
  const std::vector<pattern::Rule> list = {mask_rule(*context.model.graph)};
  const size_t changes = pattern::apply_rules(list, context);
  std::map<std::string, std::vector<std::string>> left;  // attentions by reason
  for (const NearMiss& miss : pattern::explain_anchors(list, context.model)) left[miss.reason].push_back(miss.anchor);
  for (const auto& [reason, anchors] : left)
    context.report.notes.push_back(anchors.size() == 1
                                       ? fmt::format("{}: its mask stays a float mask: {}", anchors[0], reason)
                                       : fmt::format("{} and {} more attentions: their masks stay float masks: {}",
                                                     anchors[0], anchors.size() - 1, reason));
  return changes;
}

}  // namespace attune
