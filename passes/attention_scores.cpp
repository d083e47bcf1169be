#include "passes/attention_scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "passes/attention_node.h"
#include "passes/uniform_value.h"

namespace attune {

using pattern::any;
using pattern::Match;
using pattern::one_of;
using pattern::Op;
using pattern::optional;
using pattern::Outcome;
using pattern::Pat;

namespace {

enum MaskUse : size_t { kAdded, kSubtracted, kKept, kFilled, kUnmasked };
enum Guard : size_t { kGuarded, kGuardedByMask, kKeptAgain, kFilledAgain, kUnguarded };
enum Floor : size_t { kFloored, kUnfloored };

// Added to the scores or subtracted, or the condition under which they are kept, or under which a filler replaces them.
Pat masked(const std::string& name, const Pat& scores) {
  // A number added to all scores is no mask.
  Pat mask = where(any(name), "a mask", [](const Value& v, const Inference& known) { return !known.scalar(&v); });
  Pat filler = any(name + " filler");
  const std::string result = name + "ed scores";
  return one_of(name + " use", {Op("Add", result).replaced()(scores, mask), Op("Sub", result).replaced()(scores, mask),
                                Op("Where", result).replaced()(mask, scores, filler),
                                Op("Where", result).replaced()(mask, filler, scores), scores});
}

// A filler that stands for "excluded": no score comes near it.
constexpr double kLargestFiller = -1e4;

double lowest_of(DataType type) {
  if (type == DataType::kFloat16) return -65504;
  return type == DataType::kDouble ? std::numeric_limits<double>::lowest()
                                   : static_cast<double>(std::numeric_limits<float>::lowest());
}

bool is_lowest(const Value& v, const Inference& known) { return known.scalar(&v) == lowest_of(v.element_type()); }

}  // namespace

bool has_column_scores(const Node& softmax) {
  constexpr int kMaxSteps = 10;
  std::vector<const Value*> front{softmax.input(0)};
  for (int step = 0; step < kMaxSteps && !front.empty(); ++step) {
    std::vector<const Value*> next;
    for (const Value* v : front) {
      const Node* n = v ? v->producer() : nullptr;
      if (!n) continue;
      if (n->is("MatMul")) {
        const TensorType& column = n->input(1)->tensor_type();
        return column.rank() == 2 && column.dim(1).is(1);
      }
      next.insert(next.end(), n->inputs().begin(), n->inputs().end());
    }
    front = std::move(next);
  }
  return false;
}

bool absorbs_scores(double filler, DataType type) {
  if (type == DataType::kFloat16) return filler <= -65504;
  return filler <= (type == DataType::kDouble ? -1e18 : -1e9);
}

Pat masked_scores(const Pat& scores) {
  Pat all = scores;
  for (const char* step : kMaskSteps) all = masked(step, all);
  Pat lowest = where(pattern::scalar("lowest"), "the lowest number of its type", is_lowest);
  return one_of("floor", {Op("Max")(all, lowest), all});
}

Pat softmax_weights(const Pat& scores) {
  Pat probs = Op("Softmax", "softmax").axis(-1).replaced()(optional(Op("Cast", "softmax input cast"), scores));
  const auto zero_where = [](const Pat& condition, const Pat& x) {
    return Op("Where", "guarded").replaced()(condition, pattern::constant(0), x);
  };
  const auto cast = [](const Pat& x) { return optional(Op("Cast", "softmax output cast").replaced(), x); };
  Pat nothing_seen = Op("Equal").shared()(Op("ReduceMax", "guard maximum").further_inputs().shared()(any("guard mask")),
                                          pattern::constant(-std::numeric_limits<double>::infinity()));
  Pat kept_again = Op("Where", "guarded").replaced()(any("condition again"), cast(probs), pattern::constant(0));
  return one_of("guard", {cast(zero_where(Op("IsNaN")(probs), probs)), zero_where(nothing_seen, cast(probs)),
                          kept_again, zero_where(any("condition again"), cast(probs)), cast(probs)});
}

bool MaskReader::any_with_batch(const Match& match) {
  for (const std::string step : kMaskSteps) {
    if (match.choice(step + " use") == kUnmasked) continue;
    const TensorType& mask = match[step]->tensor_type();
    if (mask.rank() > 3 || (mask.rank() == 3 && !mask.dim(0).is(1))) return true;
  }
  return false;
}

std::optional<Outcome> MaskReader::read() {
  for (const char* step : kMaskSteps)
    if (auto refusal = read_step(step)) return refusal;
  // Sums that overflow are raised to the lowest number, which a finite mask gives as well.
  if (m_.choice("floor") == kFloored && mask_) {
    if (is_condition()) {
      filler_ = std::max(filler_, lowest_of(type_));
    } else {
      mask_ = b_.op("Max", {mask_, b_.scalar(lowest_of(type_), type_)});
    }
  }
  return check_guard();
}

// A guard against rows whose mask is all -inf says what an Attention does anyway, if it asks the mask that is added.
std::optional<Outcome> MaskReader::check_guard() const {
  if (is_hidden_again()) return check_condition_again();
  if (m_.choice("guard") != kGuardedByMask) return std::nullopt;
  const Value* asked = m_["guard mask"];
  std::string last;
  for (const std::string step : kMaskSteps)
    if (m_.choice(step + " use") != kUnmasked) last = step;
  if (last.empty() || m_.choice(last + " use") != kAdded || m_.choice("floor") == kFloored || m_[last] != asked)
    return m_.refuse("guard mask", "is not the mask that is added to the scores");
  Dims row = *asked->tensor_type().shape;
  if (!row.empty()) row.back() = Dim(1);
  if (m_.node("guard maximum")->output()->tensor_type().shape != row)
    return m_.refuse("guard maximum", "is not taken over the last axis alone");
  return std::nullopt;
}

bool MaskReader::is_hidden_again() const {
  return m_.choice("guard") == kKeptAgain || m_.choice("guard") == kFilledAgain;
}

// Weights that are 0 where the scores were filled already: only a row that sees nothing tells them from the softmax's.
std::optional<Outcome> MaskReader::check_condition_again() const {
  const size_t wanted = m_.choice("guard") == kKeptAgain ? kKept : kFilled;
  size_t masks = 0;
  bool same = false;
  for (const std::string step : kMaskSteps) {
    if (m_.choice(step + " use") == kUnmasked) continue;
    ++masks;
    same = m_.choice(step + " use") == wanted && m_[step] == m_["condition again"];
  }
  if (masks == 1 && same) return std::nullopt;
  return m_.refuse("condition again", "is not the one mask that the scores were filled by");
}

std::optional<Outcome> MaskReader::read_step(const std::string& step) {
  const size_t use = m_.choice(step + " use");
  if (use == kUnmasked) return std::nullopt;
  Value* mask = m_[step];
  if (auto refusal = check_shape(step, *mask)) return refusal;
  return use == kAdded || use == kSubtracted ? add(step, mask) : keep(step, mask);
}

std::optional<Outcome> MaskReader::add(const std::string& step, Value* mask) {
  if (mask->element_type() != type_) mask = b_.op("Cast", {mask}, {{"to", static_cast<int64_t>(type_)}});
  if (m_.choice(step + " use") == kSubtracted) mask = b_.op("Neg", {mask});
  if (is_condition()) {
    // Excluded scores are the filler plus this mask then, of which the scores would be absorbed, too.
    if (!absorbs_scores(filler_, type_))
      return m_.refuse(step, fmt::format("is added to scores that were filled with {:g}", filler_));
    mask_ = b_.op("Where", {mask_, b_.scalar(0, type_), b_.scalar(filler_, type_)});
  }
  description_ = "added mask";
  mask_ = mask_ ? b_.op("Add", {mask_, mask}) : mask;
  return std::nullopt;
}

std::optional<Outcome> MaskReader::keep(const std::string& step, Value* mask) {
  const auto filler = uniform_value(m_[step + " filler"], m_.inference());
  if (!filler) return m_.refuse(step + " filler", "is not a constant");
  if (!(*filler <= kLargestFiller))
    return m_.refuse(step + " filler", fmt::format("{} is too large to exclude a position from the softmax", *filler));
  if (m_.choice(step + " use") == kFilled) mask = b_.op("Not", {mask});
  if (mask_ && is_condition()) {
    if (*filler != filler_)
      return m_.refuse(step, fmt::format("fills with {:g}, another mask with {:g}", *filler, filler_));
    mask_ = b_.op("And", {mask_, mask});
  } else if (mask_) {
    if (!absorbs_scores(*filler, type_))
      return m_.refuse(step, fmt::format("fills scores to which a mask was added with {:g}", *filler));
    mask_ = b_.op("Where", {mask, mask_, b_.scalar(*filler, type_)});
  } else {
    mask_ = mask;
    filler_ = *filler;
    description_ = fmt::format("condition as mask, filled with {:.6g}", *filler);
  }
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

Value* MaskReader::mask_of_row() {
  const int rank = mask_ ? mask_->tensor_type().rank() : 0;
  return rank < 2 ? mask_ : b_.unsqueeze(mask_, {rank - 1});
}

bool is_used_outside(const Match& match, const Value& value) {
  if (value.is_graph_output()) return true;
  for (const Use& u : value.uses())
    if (std::find(match.nodes().begin(), match.nodes().end(), u.node) == match.nodes().end()) return true;
  return false;
}

std::vector<ShownValue> MaskReader::masked() const {
  std::vector<ShownValue> values;
  bool added = m_.choice("floor") == kUnfloored;  // all of them
  for (const std::string step : kMaskSteps) {
    const size_t use = m_.choice(step + " use");
    if (use == kUnmasked) continue;
    added = added && (use == kAdded || use == kSubtracted);
    values.push_back({m_.node(step + "ed scores")->output(), ""});
  }
  const bool excluded = is_condition() && !std::isfinite(filler_);
  if (!values.empty() && (added || excluded)) values.back().output = "biased";
  return values;
}

std::vector<ShownValue> weights_of(const Match& match) {
  std::vector<ShownValue> values;
  const size_t guard = match.choice("guard");
  const bool guarded_last = guard == kGuardedByMask || guard == kKeptAgain || guard == kFilledAgain;
  for (const char* name :
       {"softmax", guarded_last ? "softmax output cast" : "guarded", guarded_last ? "guarded" : "softmax output cast"})
    if (const Node* n = match.node(name)) values.push_back({n->output(), ""});
  values.back().output = "normalized";
  return values;
}

namespace {

// The value, and who uses it outside of the match.
std::string describe_use(const Match& match, const Value& value) {
  const std::string name = value.name().empty() ? value.producer()->label() : fmt::format("'{}'", value.name());
  if (value.is_graph_output()) return name + " is an output of the graph";
  for (const Use& u : value.uses())
    if (std::find(match.nodes().begin(), match.nodes().end(), u.node) == match.nodes().end())
      return name + " by " + u.node->label();
  return name;
}

}  // namespace

std::optional<Outcome> find_shown(const Match& match, std::span<const ShownValue> values, DataType type,
                                  ShownValue& shown) {
  for (const ShownValue& v : values) {
    if (!is_used_outside(match, *v.value)) continue;
    for (const Use& u : v.value->uses())
      if (u.node->is("Shape"))
        return match.refuse("softmax", "a step of it is also read for its shape: " + describe_use(match, *v.value));
    if (v.output.empty())
      return match.refuse("softmax",
                          "a step of it is also used outside of the attention: " + describe_use(match, *v.value));
    if (v.value->element_type() != type)
      return match.refuse("softmax", "a step of it is also used outside of the attention, in another type: " +
                                         describe_use(match, *v.value));
    if (shown.value)
      return match.refuse("softmax", "two steps of it are also used outside of the attention: " +
                                         describe_use(match, *shown.value) + ", " + describe_use(match, *v.value));
    shown = v;
  }
  return std::nullopt;
}

}  // namespace attune
