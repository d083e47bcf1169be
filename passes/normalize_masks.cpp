// Masks in the ways that the attention rules know: added to scores with heads apart, or as a condition
#include <optional>
#include <utility>

#include "passes/mask_analysis.h"
#include "passes/node_facts.h"
#include "passes/passes.h"
#include "passes/rules.h"

namespace attune {
namespace {

using pattern::any;
using pattern::Builder;
using pattern::Match;
using pattern::Op;
using pattern::Outcome;
using pattern::Pat;

// f, where `mask` is 1 or 0, and `rest` 0 or f; nothing if they aren't.
std::optional<double> filler_of(const Value& mask, const Value& rest, bool negated, const Inference& inference) {
  if (mask.tensor_type().shape != rest.tensor_type().shape) return std::nullopt;
  const MaskTreePtr m = analyze_mask(mask, inference).tree;
  const MaskTreePtr r = m && m->atom ? analyze_mask(rest, inference).tree : nullptr;
  if (!r) return std::nullopt;
  std::optional<double> filler;
  bool is_mask = true;
  combine({m, r}, [&](const std::vector<double>& v) {
    const double value = negated ? -v[1] : v[1];
    if (v[0] == 1) {
      is_mask = is_mask && value == 0;
    } else {
      is_mask = is_mask && v[0] == 0 && value != 0 && filler.value_or(value) == value;
      filler = value;
    }
    return 0.0;
  });
  return is_mask ? filler : std::nullopt;
}

Value* without_factors(Value* v) {
  for (const Node* n = v->producer(); n && (n->is("Mul") || n->is("Div")) && n->input(1)->tensor_type().rank() == 0;
       n = v->producer())
    v = n->input(0);
  return v;
}

// The queries of scores, behind factors; null if they are no product.
Value* query_of(Value* scores) {
  const Node* n = without_factors(scores)->producer();
  return n && n->is("MatMul") ? without_factors(n->input(0)) : nullptr;
}

// Whether a mask (B, H, T, S) becomes (B H, T, S).
bool folds_heads(const TensorType& mask, const TensorType& folded) {
  return mask.rank() == 4 && folded.shape == Dims{folded.dim(0), mask.dim(2), mask.dim(3)};
}

// Scores (B H, T, S) plus a mask that was folded like them: unfolded, added, and folded again.
pattern::Rule folded_mask() {
  Pat folded = Op("Reshape", "folded").shared()(any("mask"), any());
  return {"normalize_folded_mask", Op("Add")(any("scores"), folded), [](const Match& m, Builder& b) -> Outcome {
            const TensorType &folded = m["folded"]->tensor_type(), &scores = m["scores"]->tensor_type();
            const bool folds = folds_heads(m["mask"]->tensor_type(), folded) &&
                               scores.shape == Dims{folded.dim(0), scores.dim(1), folded.dim(2)} &&
                               (folded.dim(1) == scores.dim(1) || folded.dim(1).is(1));
            if (!folds) return m.refuse("folded", "does not fold heads into the batch as the scores have it");
            Value* query = query_of(m["scores"]);
            if (!query) return m.refuse("scores", "are not a product of queries and keys");
            const auto sizes = [&](Value* v, int64_t begin, int64_t end) {
              return b.op("Slice", {b.op("Shape", {v}), b.integers({begin}), b.integers({end})});
            };
            const auto shape = [&](Value* of_mask, int64_t axes) {
              return b.op("Concat", {sizes(of_mask, 0, axes), sizes(query, 1, 2), sizes(of_mask, axes + 1, axes + 2)},
                          {{"axis", int64_t{0}}});
            };
            Value* unfolded = b.op("Reshape", {m["scores"], shape(m["mask"], 2)});
            return b.op("Reshape", {b.op("Add", {unfolded, m["mask"]}), shape(m["folded"], 1)});
          }};
}

// A mask of all heads plus one that was folded with them (nn.MultiheadAttention's two masks): added before it is
// folded.
pattern::Rule sum_with_folded_mask() {
  Pat folded = Op("Reshape", "folded").shared()(any("mask"), any());
  return {"normalize_folded_mask", Op("Add")(any("of all"), folded), [](const Match& m, Builder& b) -> Outcome {
            const TensorType& all = m["of all"]->tensor_type();
            const bool folds = folds_heads(m["mask"]->tensor_type(), m["folded"]->tensor_type()) &&
                               (all.rank() == 2 || (all.rank() == 3 && all.dim(0).is(1)));
            if (!folds) return m.refuse("of all", "is no mask of all heads beside a folded one");
            Value* sum = b.op("Add", {m["of all"], m["mask"]});
            Value* heads = b.op("Slice", {b.op("Shape", {m["folded"]}), b.integers({0}), b.integers({1})});
            Value* sizes = b.op("Slice", {b.op("Shape", {sum}), b.integers({2}), b.integers({4})});
            return b.op("Reshape", {sum, b.op("Concat", {heads, sizes}, {{"axis", int64_t{0}}})});
          }};
}

// Where heads are folded into the batch of scores (B H, T, S), their number; nothing otherwise.
std::optional<int64_t> heads_of(Value* scores) {
  const Value* query = query_of(scores);
  const Node* fold = query ? query->producer() : nullptr;
  const Dims* apart = fold && fold->is("Reshape") ? dims(fold->input(0), 4) : nullptr;
  const Dims* folded = dims(query ? query : scores, 3);
  const bool folds = apart && folded && (*apart)[2] == (*folded)[1] && (*apart)[3] == (*folded)[2];
  return folds ? (*apart)[1].constant() : std::nullopt;
}

// Whether a mask has a row or matrix for each of the rows of scores (B H, T, S).
bool has_mask_of_each(const Value* mask, const Value* scores) {
  const Dims *m = dims(mask, 3), *s = dims(scores, 3);
  return m && s && (*m)[0] == (*s)[0] && ((*m)[1] == (*s)[1] || (*m)[1].is(1)) && (*m)[2] == (*s)[2];
}

enum class MaskForm { kAdded, kKept, kFilled };

// Scores (B H, T, S) and a mask of each of their rows, however it is made: unfolded, masked, and folded again.
pattern::Rule mask_of_each(MaskForm form) {
  Pat scores = any("scores"), mask = any("mask"), filler = any("filler");
  Pat masked = form == MaskForm::kAdded  ? Op("Add", "masked")(scores, mask)
               : form == MaskForm::kKept ? Op("Where", "masked")(mask, scores, filler)
                                         : Op("Where", "masked")(mask, filler, scores);
  return {"normalize_folded_mask", masked, [form](const Match& m, Builder& b) -> Outcome {
            Value *scores = m["scores"], *mask = m["mask"], *filler = m["filler"];
            if (form == MaskForm::kAdded && !heads_of(scores)) std::swap(scores, mask);  // either is any operand
            const auto heads = heads_of(scores);
            if (!heads) return m.refuse("scores", "are not a product of heads that are folded into the batch");
            if (!has_mask_of_each(mask, scores))
              return m.refuse("mask", "is not one of each row of the batch and its heads");
            if (filler && filler->tensor_type().rank() != 0) return m.refuse("filler", "is not a number");
            const auto size = [&](Value* v, int64_t axis) {
              return b.op("Slice", {b.op("Shape", {v}), b.integers({axis}), b.integers({axis + 1})});
            };
            const auto target = [&](Value* rows, Value* queries_of) {
              return b.op("Concat", {rows, size(queries_of, 1), size(mask, 2)}, {{"axis", int64_t{0}}});
            };
            Value* query = query_of(scores);
            std::vector<Value*> operands;
            for (Value* x : m.node("masked")->inputs())
              operands.push_back(
                  x == filler ? x : b.op("Reshape", {x, target(b.integers({-1, *heads}), x == mask ? x : query)}));
            Value* all = b.op(m.node("masked")->type(), std::move(operands));
            return b.op("Reshape", {all, target(size(mask, 0), query)});
          }};
}

// x m + f (1 - m), with m of 0 and 1  =  Where(m, x, f)
pattern::Rule multiplied_mask(bool subtracted) {
  Pat kept = Op("Mul", "kept")(any("scores"), any("mask"));
  Pat filled = subtracted ? Op("Sub")(kept, any("filler")) : Op("Add")(kept, any("filler"));
  return {"normalize_multiplied_mask", filled, [subtracted](const Match& m, Builder& b) -> Outcome {
            // Either factor may be the mask.
            for (const bool swapped : {false, true}) {
              Value *scores = m[swapped ? "mask" : "scores"], *mask = m[swapped ? "scores" : "mask"];
              if (!is_float(mask->element_type())) continue;
              const auto filler = filler_of(*mask, *m["filler"], subtracted, m.inference());
              if (!filler) continue;
              Value* condition = b.op("Cast", {mask}, {{"to", static_cast<int64_t>(DataType::kBool)}});
              return b.op("Where", {condition, scores, b.scalar(*filler, scores->element_type())});
            }
            return m.refuse("mask", "is not one of 0 and 1 that chooses between scores and a filler");
          }};
}

// Where(m, x - k, x) = x + Where(m, -k, 0), with a number k
pattern::Rule shifted_mask(const std::string& type, bool shifted_first) {
  Pat scores = any("scores"), mask = any("mask");
  Pat shifted = Op(type)(scores, pattern::scalar("number"));
  Pat masked = shifted_first ? Op("Where")(mask, shifted, scores) : Op("Where")(mask, scores, shifted);
  return {"normalize_shifted_mask", masked, [type, shifted_first](const Match& m, Builder& b) -> Outcome {
            const DataType element = m["scores"]->element_type();
            if (!is_float(element) || m["number"]->tensor_type().rank() > m["scores"]->tensor_type().rank())
              return m.refuse("number", "is not one that scores are shifted by");
            Value* number = b.scalar(type == "Sub" ? -*m.number("number") : *m.number("number"), element);
            Value* none = b.scalar(0, element);
            Value* added =
                shifted_first ? b.op("Where", {m["mask"], number, none}) : b.op("Where", {m["mask"], none, number});
            return b.op("Add", {m["scores"], added});
          }};
}

// s Where(m, x, f) = Where(m, s x, s f), with a positive number s and a filler f: sharpened scores
pattern::Rule scaled_mask(const std::string& type, bool filler_first) {
  Pat scores = any("scores"), filler = pattern::scalar("filler"), mask = any("mask");
  Pat masked = filler_first ? Op("Where")(mask, filler, scores) : Op("Where")(mask, scores, filler);
  return {
      "normalize_scaled_mask", Op(type)(masked, pattern::scalar("factor")),
      [type, filler_first](const Match& m, Builder& b) -> Outcome {
        const double number = *m.number("factor"), factor = type == "Mul" ? number : 1 / number;
        const Value* operand = m["factor"];
        if (!(factor > 0)) return m.refuse("factor", "is not a positive number");
        if (operand->tensor_type().rank() > m["scores"]->tensor_type().rank())
          return m.refuse("factor", "adds axes to the scores");
        if (!(*m.number("filler") < 0)) return m.refuse("filler", "hides no position from a softmax");
        Value* scores = b.op(type, {m["scores"], m["factor"]});
        Value* filler = b.scalar(*m.number("filler") * factor, scores->element_type());
        return filler_first ? b.op("Where", {m["mask"], filler, scores}) : b.op("Where", {m["mask"], scores, filler});
      }};
}

}  // namespace

namespace rules {

std::vector<pattern::Rule> mask_forms() {
  return {folded_mask(),
          sum_with_folded_mask(),
          mask_of_each(MaskForm::kAdded),
          mask_of_each(MaskForm::kKept),
          mask_of_each(MaskForm::kFilled),
          multiplied_mask(false),
          multiplied_mask(true),
          shifted_mask("Add", false),
          shifted_mask("Add", true),
          shifted_mask("Sub", false),
          shifted_mask("Sub", true),
          scaled_mask("Mul", false),
          scaled_mask("Mul", true),
          scaled_mask("Div", false),
          scaled_mask("Div", true)};
}

}  // namespace rules
}  // namespace attune
