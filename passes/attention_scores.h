// What the attention rules share: from scores over masks and the softmax to weights.
#pragma once

#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "passes/pattern/rule.h"

namespace attune {

// True for a filler that absorbs every score of the type: a row of nothing else is uniform.
// Whether the scores of a Softmax come from a product with one column, as additive ones do: which rule explains it.
bool has_column_scores(const Node& softmax);
bool absorbs_scores(double filler, DataType type);

// The captures of masks, the innermost first.
inline constexpr std::array kMaskSteps = {"first mask", "second mask", "mask"};
// Up to three masks around `scores`, captured as these, and a floor at the type's lowest number.
pattern::Pat masked_scores(const pattern::Pat& scores);
// The softmax over the last axis ("softmax"), with Casts around it and a guard against rows that are all NaN.
pattern::Pat softmax_weights(const pattern::Pat& scores);

// A value between scores and weights, and what weights_output calls it; empty: an Attention doesn't give it.
struct ShownValue {
  Value* value = nullptr;
  std::string output = {};
};

// The masks of a match as one input of Attention.
class MaskReader {
 public:
  // `scores`: the value before masks; `type`: of queries and float masks.
  MaskReader(const pattern::Match& match, pattern::Builder& builder, const Value& scores, DataType type)
      : m_(match), b_(builder), scores_(scores), type_(type) {}

  // Reads them; gives a refusal where they can't be said exactly.
  std::optional<pattern::Outcome> read();
  // The mask, right-aligned to (B, H, Tq, Tk); null if there is none. Scores of rank 2 are (B, Tk), of rank 3
  // (B, Tq, Tk).
  Value* mask();
  // Likewise for scores (B, H, Tk) of one query.
  Value* mask_of_row();
  // The scores with each mask.
  std::vector<ShownValue> masked() const;
  // What a row without positions gets: true: the mean (its filler was finite).
  bool mean_if_empty() const { return is_condition() && std::isfinite(filler_) && !is_hidden_again(); }
  const std::string& description() const { return description_; }
  // True if some mask has three dimensions or more, of which the first is not 1.
  static bool any_with_batch(const pattern::Match& match);

 private:
  std::optional<pattern::Outcome> read_step(const std::string& step);
  std::optional<pattern::Outcome> add(const std::string& step, Value* mask);
  std::optional<pattern::Outcome> keep(const std::string& step, Value* mask);
  std::optional<pattern::Outcome> check_guard() const;
  bool is_hidden_again() const;
  std::optional<pattern::Outcome> check_condition_again() const;
  bool is_condition() const { return mask_ && mask_->element_type() == DataType::kBool; }
  std::optional<pattern::Outcome> check_shape(const std::string& step, const Value& mask) const;

  const pattern::Match& m_;
  pattern::Builder& b_;
  const Value& scores_;
  DataType type_;
  Value* mask_ = nullptr;
  double filler_ = 0;  // of a condition
  std::string description_ = "no mask";
};

// True if `value` is a graph output or used by nodes that aren't in the match.
bool is_used_outside(const pattern::Match& match, const Value& value);
// The weights of a match as the softmax, its guard and its cast give them; only the last are those of an Attention.
std::vector<ShownValue> weights_of(const pattern::Match& match);
// The one of `values` that is also used outside of the match, if any is. Refuses where it isn't what an Attention
// gives, is of another type than `type`, or isn't the only one.
std::optional<pattern::Outcome> find_shown(const pattern::Match& match, std::span<const ShownValue> values,
                                           DataType type, ShownValue& shown);

}  // namespace attune
