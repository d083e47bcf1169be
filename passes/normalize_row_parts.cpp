// (x W + b)[i:j] = x[i:j] W + b, along an axis of rows: streams that are projected together and cut apart in time
// (ProphetNet's n-grams) are projected each for itself, as often as before
#include <algorithm>
#include <limits>

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

// x W or x W + b, perhaps scaled, split into heads, and transposed.
Pat rows() {
  Pat product = Op("MatMul", "product").shared()(any("x"), any("weight"));
  Pat biased = one_of("biased", {Op("Add", "sum").shared()(product, any("bias")), product});
  Pat factor = pattern::scalar("factor");
  Pat scaled = one_of("scaling", {Op("Mul", "multiplied").shared()(biased, factor),
                                  Op("Div", "divided").shared()(biased, factor), biased});
  Pat split = pattern::optional(Op("Reshape", "heads").shared(), scaled, any());
  return one_of("order", {Op("Transpose", "transposed").shared()(split), split});
}

class Rows {
 public:
  // `axis` of the rows, which is cut.
  Rows(const Match& m, int64_t axis) : m_(m), axis_(axis) {
    if (!m.node("transposed")) return;
    perm_ = m.node("transposed")->attr_ints("perm");
    axis_ = axis < static_cast<int64_t>(perm_.size()) ? perm_[static_cast<size_t>(axis)] : -1;
  }

  int64_t axis() const { return axis_; }  // of x

  // Why rows of x can't be projected instead; empty if they can.
  std::string why_not() const {
    const int rank = m_["x"]->tensor_type().rank();
    if (axis_ < 0 || axis_ + 1 >= rank) return "is not cut along an axis of rows";
    if (m_["weight"]->tensor_type().rank() != 2) return "is not the product with one matrix";
    if (m_["bias"] && m_["bias"]->tensor_type().rank() != 1) return "adds more than a vector to each row";
    if (m_.choice("scaling") != kUnscaled && m_["factor"]->tensor_type().rank() > 1)
      return "is broadcast by its factor";
    if (m_.node("heads") && !splits_columns()) return "does not split the last axis alone into constant sizes";
    const Value& end = *m_.node("part")->input(0);
    for (const char* step : {"product", "sum", "multiplied", "divided", "heads"})
      if (const Node* n = m_.node(step)) {
        const Value& made = *n->output();
        if (&made != &end && (made.uses().size() > 1 || made.is_graph_output())) return "is also used as a whole";
      }
    return end.is_graph_output() ? "is also used as a whole" : "";
  }

  // The same of some rows of x.
  Value* project(Builder& b, Value* x) const {
    Value* v = b.op("MatMul", {x, m_["weight"]});
    if (m_["bias"]) v = b.op("Add", {v, m_["bias"]});
    if (m_.choice("scaling") != kUnscaled) v = b.op(m_.choice("scaling") == 0 ? "Mul" : "Div", {v, m_["factor"]});
    if (m_.node("heads")) {
      const Dims& split = *m_["heads"]->tensor_type().shape;
      std::vector<int64_t> target(static_cast<size_t>(x->tensor_type().rank()) - 1, 0);
      for (size_t i = target.size(); i < split.size(); ++i) target.push_back(*split[i].constant());
      v = b.reshape(v, target);
    }
    return m_.node("transposed") ? b.transpose(v, perm_) : v;
  }

 private:
  static constexpr size_t kUnscaled = 2;

  bool splits_columns() const {
    const Value* whole = m_.node("heads")->input(0);
    if (!splits_last_axis(whole, m_["heads"])) return false;
    const Dims& split = *dims(m_["heads"]);
    return std::all_of(split.begin() + whole->tensor_type().rank() - 1, split.end(),
                       [](const Dim& d) { return d.constant().has_value(); });
  }

  const Match& m_;
  int64_t axis_;
  std::vector<int64_t> perm_;
};

struct Part {
  int64_t axis;
  Dim begin, end;
};

// The one axis that a Slice cuts.
std::optional<int64_t> axis_of(const Node& slice, const Inference& inference) {
  const int rank = slice.input(0)->tensor_type().rank();
  const auto axes = inference.constant_integers(slice.input(3));
  if (rank < 0 || !axes || axes->size() != 1) return std::nullopt;
  return from_front((*axes)[0], rank);
}

// What a Slice takes, one by one; nothing if it isn't known.
std::optional<Part> part_of(const Node& slice, const Inference& inference) {
  const auto axis = axis_of(slice, inference);
  const auto begin = inference.integers(slice.input(1)), end = inference.integers(slice.input(2));
  const auto steps = slice.input(4) ? inference.constant_integers(slice.input(4)) : std::vector<int64_t>{1};
  if (!axis || !begin || !end || steps != std::vector<int64_t>{1}) return std::nullopt;
  const Dim size = slice.input(0)->tensor_type().dim(static_cast<int>(*axis));
  const auto place = [&](const Dim& d) {
    const auto number = d.constant();
    if (number && *number < 0) return size + d;
    return number && *number > std::numeric_limits<int32_t>::max() ? size : d;
  };
  Part part{*axis, place((*begin)[0]), place((*end)[0])};
  return part.end.at_least(0) ? std::optional(part) : std::nullopt;
}

bool are_apart(const Part& a, const Part& b) {
  return a.axis == b.axis && ((b.begin - a.end).at_least(0) || (a.begin - b.end).at_least(0));
}

// Whether all users of `whole` take parts of it, and none what another takes too, so that no row is projected twice.
bool all_users_take_other_rows(const Value& whole, const Inference& inference) {
  std::vector<Part> parts;
  for (const Use& u : whole.uses()) {
    if (!u.node->is("Slice")) return false;
    const auto part = part_of(*u.node, inference);
    if (!part || !std::all_of(parts.begin(), parts.end(), [&](const Part& p) { return are_apart(p, *part); }))
      return false;
    parts.push_back(*part);
  }
  return true;
}

pattern::Rule slice_of_rows() {
  return {"normalize_row_parts", Op("Slice", "part").further_inputs()(rows()),
          [](const Match& m, Builder& b) -> Outcome {
            const Node& slice = *m.node("part");
            const auto axis = axis_of(slice, m.inference());
            if (!axis) return m.refuse("part", "is not of one known axis");
            const Rows rows(m, *axis);
            if (const std::string reason = rows.why_not(); !reason.empty()) return m.refuse("product", reason);
            const Value& whole = *slice.input(0);
            if (whole.uses().size() > 1 && !all_users_take_other_rows(whole, m.inference()))
              return m.refuse("product", "has rows that several users take");
            std::vector<Value*> inputs{m["x"], slice.input(1), slice.input(2), b.integers({rows.axis()})};
            if (slice.input(4)) inputs.push_back(slice.input(4));
            return rows.project(b, b.op("Slice", std::move(inputs)));
          }};
}

pattern::Rule split_of_rows() {
  // Any output of the node may come first; the rule gives all of them.
  Pat node = Op("Split", "part").further_inputs().replaced()(rows());
  return {"normalize_row_parts", node, [](const Match& m, Builder& b) -> Outcome {
            const Node& split = *m.node("part");
            const int rank = split.input(0)->tensor_type().rank();
            if (rank < 0) return m.refuse("part", "its rank is not known");
            const Rows rows(m, from_front(split.attr_int("axis", 0), rank));
            if (const std::string reason = rows.why_not(); !reason.empty()) return m.refuse("product", reason);
            if (split.input(0)->uses().size() > 1) return m.refuse("product", "has rows that several users take");
            std::vector<Value*> inputs(split.inputs().begin(), split.inputs().end());
            inputs[0] = m["x"];
            Attributes attributes = split.attributes();
            attributes["axis"] = rows.axis();
            const Node* parts = b.node("", "Split", std::move(inputs), split.output_count(), std::move(attributes));
            Outcome outcome(rows.project(b, parts->output(0)));
            for (size_t i = 1; i < split.output_count(); ++i)
              if (split.output(i)) outcome.also(split.output(i), rows.project(b, parts->output(i)));
            return outcome;
          }};
}

}  // namespace

std::vector<pattern::Rule> rules::row_part_forms() { return {slice_of_rows(), split_of_rows()}; }

}  // namespace attune
