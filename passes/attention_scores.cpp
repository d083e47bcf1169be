#include "passes/attention_scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "passes/attention_node.h"

namespace attune {

using pattern::any;
using pattern::Match;
using pattern::one_of;
using pattern::Op;
using pattern::optional;
using pattern::Outcome;
using pattern::Pat;

namespace {

enum MaskUse : size_t { kAdded, kKept, kFilled, kUnmasked };
enum Guard : size_t { kGuarded, kGuardedByMask, kUnguarded };

constexpr const char* kSteps[] = {"first mask", "mask"};

// Added to the scores, or the condition under which they are kept, or under which a filler replaces them.
Pat masked(const std::string& name, const Pat& scores) {
  // A number added to all scores is no mask.
  Pat mask = where(any(name), "a mask", [](const Value& v, const Inference& known) { return !known.scalar(&v); });
  Pat filler = any(name + " filler");
  const std::string result = name + "ed scores";
  return one_of(name + " use",
                {Op("Add", result).replaced()(scores, mask), Op("Where", result).replaced()(mask, scores, filler),
                 Op("Where", result).replaced()(mask, filler, scores), scores});
}

// The one value of all elements of a constant, a ConstantOfShape or an expanded scalar.
std::optional<double> filler_value(const Value* v, const Inference& inference) {
  if (!v) return std::nullopt;
  if (const auto known = inference.scalar(v)) return known;
  const Node* n = v->producer();
  if (n && n->is("ConstantOfShape")) {
    const Tensor* value = n->find<Tensor>("value");
    return value ? value->to_double().at(0) : 0.0;
  }
  if (n && (n->is("Expand") || n->is("Cast"))) return filler_value(n->input(0), inference);
  return std::nullopt;
}

// A filler that stands for "excluded": no score comes near it.
constexpr double kLargestFiller = -1e4;

}  // namespace

Pat masked_scores(const Pat& scores) { return masked("mask", masked("first mask", scores)); }

Pat softmax_weights(const Pat& scores) {
  Pat probs = Op("Softmax", "softmax").axis(-1).replaced()(optional(Op("Cast", "softmax input cast"), scores));
  const auto zero_where = [](const Pat& condition, const Pat& x) {
    return Op("Where", "guarded").replaced()(condition, pattern::constant(0), x);
  };
  const auto cast = [](const Pat& x) { return optional(Op("Cast", "softmax output cast").replaced(), x); };
  Pat nothing_seen = Op("Equal").shared()(Op("ReduceMax", "guard maximum").further_inputs().shared()(any("guard mask")),
                                          pattern::constant(-std::numeric_limits<double>::infinity()));
  return one_of("guard",
                {cast(zero_where(Op("IsNaN")(probs), probs)), zero_where(nothing_seen, cast(probs)), cast(probs)});
}

bool MaskReader::any_of_rank_at_least(const Match& match, int rank) {
  for (const std::string step : kSteps)
    if (match.choice(step + " use") != kUnmasked && match[step]->tensor_type().rank() >= rank) return true;
  return false;
}

std::optional<Outcome> MaskReader::read() {
  for (const char* step : kSteps)
    if (auto refusal = read_step(step)) return refusal;
  return check_guard();
}

// A guard against rows whose mask is all -inf says what an Attention does anyway, if it asks the mask that is added.
std::optional<Outcome> MaskReader::check_guard() const {
  if (m_.choice("guard") != kGuardedByMask) return std::nullopt;
  const Value* asked = m_["guard mask"];
  const char* last = m_.choice("mask use") != kUnmasked ? "mask" : "first mask";
  if (m_.choice(std::string(last) + " use") != kAdded || m_[last] != asked)
    return m_.refuse("guard mask", "is not the mask that is added to the scores");
  const auto &from = asked->tensor_type().shape, &to = m_.node("guard maximum")->output()->tensor_type().shape;
  if (!from || !to || from->empty() || from->size() != to->size() || !to->back().is(1) ||
      !std::equal(from->begin(), from->end() - 1, to->begin()))
    return m_.refuse("guard maximum", "is not taken over the last axis alone");
  return std::nullopt;
}

std::optional<Outcome> MaskReader::read_step(const std::string& step) {
  const size_t use = m_.choice(step + " use");
  if (use == kUnmasked) return std::nullopt;
  Value* mask = m_[step];
  if (auto refusal = check_shape(step, *mask)) return refusal;
  if (mask_ && (use != kAdded || mask_->element_type() == DataType::kBool))
    return m_.refuse(step, "two masks of which one is a condition can't be one mask");
  if (use == kAdded) {
    description_ = "added mask";
    if (mask->element_type() != type_) mask = b_.op("Cast", {mask}, {{"to", static_cast<int64_t>(type_)}});
    mask_ = mask_ ? b_.op("Add", {mask_, mask}) : mask;
    return std::nullopt;
  }
  if (auto refusal = read_condition(step, mask)) return refusal;
  mask_ = mask;
  return std::nullopt;
}

std::optional<Outcome> MaskReader::read_condition(const std::string& step, Value*& mask) {
  const auto filler = filler_value(m_[step + " filler"], m_.inference());
  if (!filler) return m_.refuse(step + " filler", "is not a constant");
  if (*filler > kLargestFiller)
    return m_.refuse(step + " filler", fmt::format("{} is too large to exclude a position from the softmax", *filler));
  mean_if_empty_ = std::isfinite(*filler);
  description_ = fmt::format("condition as mask, filled with {:.6g}", *filler);
  if (m_.choice(step + " use") == kFilled) mask = b_.op("Not", {mask});
  return std::nullopt;
}

// The mask may be broadcast to the scores, not the scores to the mask.
std::optional<Outcome> MaskReader::check_shape(const std::string& step, const Value& mask) const {
  const TensorType &type = mask.tensor_type(), &scores = scores_.tensor_type();
  if (!type.has_rank()) return m_.refuse(step, "its rank is not known");
  bool fits = type.rank() <= scores.rank();
  for (int axis = -1; fits && axis >= -type.rank(); --axis)
    fits = type.dim(axis).is(1) || may_be_equal(type.dim(axis), scores.dim(axis));
  if (fits) return std::nullopt;
  return m_.refuse(
      step, fmt::format("{} does not broadcast to the scores {}", mask.type().to_string(), scores_.type().to_string()));
}

Value* MaskReader::mask() {
  if (!mask_) return nullptr;
  const int rank = mask_->tensor_type().rank(), of_scores = scores_.tensor_type().rank();
  if (of_scores == 2 && rank == 2) return b_.unsqueeze(mask_, {1, 2});  // (B, Tk)
  if (of_scores == 3 && rank == 3) return b_.unsqueeze(mask_, {1});     // (B, Tq, Tk)
  return mask_;
}

bool is_used_outside(const Match& match, const Value& value) {
  if (value.is_graph_output()) return true;
  for (const Use& u : value.uses())
    if (std::find(match.nodes().begin(), match.nodes().end(), u.node) == match.nodes().end()) return true;
  return false;
}

std::vector<ShownValue> MaskReader::masked() const {
  std::vector<ShownValue> values;
  for (const std::string step : kSteps) {
    const size_t use = m_.choice(step + " use");
    if (use == kUnmasked) continue;
    values.push_back({m_.node(step + "ed scores")->output(), use == kAdded || !mean_if_empty_ ? "biased" : ""});
    if (values.size() == 2) values.front().output = "";
  }
  return values;
}

std::vector<ShownValue> weights_of(const Match& match) {
  std::vector<ShownValue> values;
  const bool guarded_last = match.choice("guard") == kGuardedByMask;
  for (const char* name :
       {"softmax", guarded_last ? "softmax output cast" : "guarded", guarded_last ? "guarded" : "softmax output cast"})
    if (const Node* n = match.node(name)) values.push_back({n->output(), ""});
  values.back().output = "normalized";
  return values;
}

std::optional<Outcome> find_shown(const Match& match, std::span<const ShownValue> values, DataType type,
                                  ShownValue& shown) {
  for (const ShownValue& v : values) {
    if (!is_used_outside(match, *v.value)) continue;
    for (const Use& u : v.value->uses())
      if (u.node->is("Shape")) return match.refuse("softmax", "a step of it is also read for its shape");
    if (v.output.empty()) return match.refuse("softmax", "a step of it is also used outside of the attention");
    if (v.value->element_type() != type)
      return match.refuse("softmax", "a step of it is also used outside of the attention, in another type");
    if (shown.value) return match.refuse("softmax", "scores and weights are also used outside of the attention");
    shown = v;
  }
  return std::nullopt;
}

}  // namespace attune
