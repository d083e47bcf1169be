// One product for several operands (packed Q, K, V) becomes one for each:  (x W + b)[.., i:j] = x W[.., i:j] + b[i:j]
#include <algorithm>
#include <numeric>

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

// x W or x W + b; the whole is captured as "projection".
Pat packed_projection() {
  Pat product = Op("MatMul").shared()(any("x"), any("weight"));
  return one_of("biased", {Op("Add", "projection").shared()(product, any("bias")),
                           Op("MatMul", "projection alone").shared()(any("x"), any("weight"))});
}

Value* projection(const Match& m) { return m["projection"] ? m["projection"] : m["projection alone"]; }

// Columns [begin, end) of a constant over its last axis; with `groups`, of each of so many equal parts of it.
Tensor columns(const Tensor& whole, int64_t begin, int64_t end, int64_t groups = 1) {
  const Tensor dense = whole.to_contiguous();
  Shape shape = dense.shape();
  const int64_t width = shape.back() / groups, rows = shape.count() / std::max<int64_t>(1, width);
  shape.back() = (end - begin) * groups;
  Tensor part = Tensor::allocate(dense.type(), shape);
  const size_t element = storage_bytes(dense.type(), 1);
  for (int64_t r = 0; r < rows; ++r)
    std::copy_n(dense.raw() + static_cast<size_t>(r * width + begin) * element,
                static_cast<size_t>(end - begin) * element,
                part.mutable_raw() + static_cast<size_t>(r * (end - begin)) * element);
  return part;
}

// Why the projection can't be cut; empty if it can.
std::string why_not_cut(const Match& m) {
  const Value* weight = m["weight"];
  if (!weight->constant() || weight->tensor_type().rank() != 2) return "its weight is not a constant matrix";
  if (weight->uses().size() > 1) return "its weight has other users, and would be copied for them";
  const Value* bias = m["bias"];
  if (bias && (!bias->constant() || bias->tensor_type().rank() != 1 ||
               !(bias->tensor_type().dim(0) == weight->tensor_type().dim(1))))
    return "its bias is not a constant vector";
  return {};
}

Value* cut_projection(const Match& m, Builder& b, int64_t begin, int64_t end, int64_t groups = 1) {
  Value* product = b.op("MatMul", {m["x"], b.constant(columns(*m["weight"]->constant(), begin, end, groups))});
  if (!m["bias"]) return product;
  return b.op("Add", {product, b.constant(columns(*m["bias"]->constant(), begin, end, groups))});
}

// What a Slice, Split or Gather takes of one axis.
struct Range {
  int64_t axis, begin, end;
  bool drops_axis = false;
};

// The part that a Slice takes; nothing if it isn't known, or is of several axes.
std::optional<Range> range_of(const Node& slice, const Inference& inference) {
  const TensorType& type = slice.input(0)->tensor_type();
  int64_t values[4] = {0, 0, 0, 1};  // start, end, axis, step
  for (size_t i = 0; i < (slice.input(4) ? 4 : 3); ++i) {
    const auto known = inference.constant_integers(slice.input(i + 1));
    if (!known || known->size() != 1) return std::nullopt;
    values[i] = (*known)[0];
  }
  const int64_t axis = from_front(values[2], type.rank());
  const auto size = type.dim(static_cast<int>(axis)).constant();
  if (!size || values[3] != 1) return std::nullopt;
  const auto clamp = [&](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + *size : i, 0, *size); };
  const Range range{axis, clamp(values[0]), clamp(values[1])};
  return range.begin < range.end ? std::optional(range) : std::nullopt;
}

std::optional<Range> range_of_last_axis(const Node& slice, const Inference& inference) {
  const auto range = range_of(slice, inference);
  return range && range->axis == slice.input(0)->tensor_type().rank() - 1 ? range : std::nullopt;
}

bool all_users_slice(const Value& v, const Inference& inference) {
  return !v.is_graph_output() && std::all_of(v.uses().begin(), v.uses().end(), [&](const Use& u) {
    return u.index == 0 && u.node->is("Slice") && range_of_last_axis(*u.node, inference).has_value();
  });
}

pattern::Rule sliced() {
  return {"normalize_packed_projection", Op("Slice", "slice").further_inputs()(packed_projection()),
          [](const Match& m, Builder& b) -> Outcome {
            if (const std::string reason = why_not_cut(m); !reason.empty()) return m.refuse("projection", reason);
            if (!all_users_slice(*projection(m), m.inference()))
              return m.refuse("projection", "is also used as a whole");
            const auto range = range_of_last_axis(*m.node("slice"), m.inference());
            return cut_projection(m, b, range->begin, range->end);
          }};
}

pattern::Rule split() {
  // Any output of the node may come first; the rule gives all of them.
  Pat node = Op("Split", "split").axis(-1).further_inputs().replaced()(packed_projection());
  return {"normalize_packed_projection", node, [](const Match& m, Builder& b) -> Outcome {
            if (const std::string reason = why_not_cut(m); !reason.empty()) return m.refuse("projection", reason);
            const Node& n = *m.node("split");
            if (projection(m)->uses().size() > 1 || projection(m)->is_graph_output())
              return m.refuse("projection", "is also used as a whole");
            std::vector<Value*> parts;
            int64_t begin = 0;
            for (size_t i = 0; i < n.output_count(); ++i) {
              const auto width = n.output(i) ? n.output(i)->tensor_type().dim(-1).constant() : std::nullopt;
              if (!width) return m.refuse("split", "its sizes are not constants");
              parts.push_back(cut_projection(m, b, begin, begin + *width));
              begin += *width;
            }
            Outcome outcome(parts[0]);
            for (size_t i = 1; i < parts.size(); ++i) outcome.also(n.output(i), parts[i]);
            return outcome;
          }};
}

// Squeeze(Slice(x)) of one element is Gather(x, i).
pattern::Rule sliced_off() {
  return {"normalize_packed_projection",
          Op("Squeeze", "squeeze").further_inputs()(Op("Slice", "slice").further_inputs().shared()(any("x"))),
          [](const Match& m, Builder& b) -> Outcome {
            const auto range = range_of(*m.node("slice"), m.inference());
            if (!range) return m.refuse("slice", "does not take a known range of one axis");
            if (range->end != range->begin + 1) return m.refuse("slice", "takes more than one element");
            if (axes_of(*m.node("squeeze"), m.inference()) != std::vector<int64_t>{range->axis})
              return m.refuse("squeeze", "drops another axis");
            return b.op("Gather", {m["x"], b.constant(Tensor::scalar(range->begin))}, {{"axis", range->axis}});
          }};
}

// Where the axes of `split` are behind the Transpose, if there is one; empty if that isn't known.
std::vector<int64_t> order_of(const Match& m, const Value* split) {
  if (const Node* transposed = m.node("transposed")) return transposed->attr_ints("perm");
  std::vector<int64_t> order(static_cast<size_t>(std::max(0, split->tensor_type().rank())));
  std::iota(order.begin(), order.end(), int64_t{0});
  return order;
}

// x W + b with its last axis split, as (B, T, H, 3, E), (B, T, H, 3 E) or (B, T, 3, H, E), perhaps transposed. A part
// of one of the axes that it was split into is a projection by some columns of the weight.
Pat split_projection() {
  Pat split = Op("Reshape", "heads").shared()(packed_projection(), any());
  return one_of("order", {Op("Transpose", "transposed").shared()(split), split});
}

class SplitProjection {
 public:
  explicit SplitProjection(const Match& m)
      : m_(m), whole_(m.node("transposed") ? m["transposed"] : m["heads"]), perm_(order_of(m, m["heads"])) {}

  // Why `ranges` can't be cut off; empty if they can.
  std::string why_not(const std::vector<Range>& ranges) const {
    if (std::string reason = why_not_cut(m_); !reason.empty()) return reason;
    if (perm_.empty() || !splits_last_axis(projection(m_), m_["heads"])) return "does not split the last axis alone";
    const Dims& split = *dims(m_["heads"]);
    const size_t leading = dims(projection(m_))->size() - 1;
    for (size_t axis = leading; axis < split.size(); ++axis)
      if (!split[axis].constant()) return "does not split the last axis into constant sizes";
    for (const Range& r : ranges)
      if (axis_of(r) < leading) return "is not cut along an axis that the last one was split into";
    if (whole_->is_graph_output() || m_["heads"]->is_graph_output()) return "is also used as a whole";
    return all_users_cut() ? std::string() : "is also used as a whole";
  }

  Value* cut(Builder& b, const Range& range) const {
    const Dims& split = *m_["heads"]->tensor_type().shape;
    const size_t leading = projection(m_)->tensor_type().shape->size() - 1, axis = axis_of(range);
    int64_t groups = 1, width = 1;
    std::vector<int64_t> target(leading, 0), perm;
    for (size_t i = leading; i < split.size(); ++i) {
      if (i != axis) (i < axis ? groups : width) *= *split[i].constant();
      if (i != axis) target.push_back(*split[i].constant());
      if (i == axis && !range.drops_axis) target.push_back(range.end - range.begin);
    }
    for (const int64_t p : perm_) {
      const bool behind = range.drops_axis && static_cast<size_t>(p) > axis;
      if (!range.drops_axis || static_cast<size_t>(p) != axis) perm.push_back(behind ? p - 1 : p);
    }
    Value* part = cut_projection(m_, b, range.begin * width, range.end * width, groups);
    if (target.size() != leading + 1) part = b.reshape(part, target);
    return std::is_sorted(perm.begin(), perm.end()) ? part : b.transpose(part, perm);
  }

 private:
  // In the order before the Transpose.
  size_t axis_of(const Range& r) const { return static_cast<size_t>(perm_[static_cast<size_t>(r.axis)]); }

  bool all_users_cut() const {
    const auto cuts = [&](const Use& u) {
      const Node& n = *u.node;
      return n.is("Split") || (n.is("Gather") && n.input(1)->tensor_type().rank() == 0) ||
             (n.is("Slice") && range_of(n, m_.inference()).has_value());
    };
    return std::all_of(whole_->uses().begin(), whole_->uses().end(), cuts);
  }

  const Match& m_;
  const Value* whole_;
  std::vector<int64_t> perm_;
};

pattern::Rule split_of_heads() {
  Pat node = Op("Split", "split").further_inputs().replaced()(split_projection());
  return {"normalize_packed_projection", node, [](const Match& m, Builder& b) -> Outcome {
            const Node& n = *m.node("split");
            const int rank = n.input(0)->tensor_type().rank();
            const int64_t given = n.attr_int("axis", 0);
            if (rank < 0) return m.refuse("split", "the rank of its input is not known");
            std::vector<Range> ranges;
            int64_t begin = 0;
            for (size_t i = 0; i < n.output_count(); ++i) {
              const int64_t axis = from_front(given, rank);
              const auto size =
                  n.output(i) ? n.output(i)->tensor_type().dim(static_cast<int>(axis)).constant() : std::nullopt;
              if (!size) return m.refuse("split", "its sizes are not constants");
              ranges.push_back({axis, begin, begin + *size});
              begin += *size;
            }
            const SplitProjection whole(m);
            if (const std::string reason = whole.why_not(ranges); !reason.empty()) return m.refuse("heads", reason);
            Outcome outcome(whole.cut(b, ranges[0]));
            for (size_t i = 1; i < ranges.size(); ++i) outcome.also(n.output(i), whole.cut(b, ranges[i]));
            return outcome;
          }};
}

pattern::Rule slice_of_heads() {
  return {"normalize_packed_projection", Op("Slice", "slice").further_inputs()(split_projection()),
          [](const Match& m, Builder& b) -> Outcome {
            const auto range = range_of(*m.node("slice"), m.inference());
            if (!range) return m.refuse("slice", "does not take a known range of one axis");
            const SplitProjection whole(m);
            if (const std::string reason = whole.why_not({*range}); !reason.empty()) return m.refuse("heads", reason);
            return whole.cut(b, *range);
          }};
}

pattern::Rule gather_of_heads() {
  return {"normalize_packed_projection", Op("Gather", "gather")(split_projection(), pattern::scalar("index")),
          [](const Match& m, Builder& b) -> Outcome {
            const Value& from = *m.node("gather")->input(0);
            const int rank = from.tensor_type().rank();
            const int64_t axis = from_front(m.node("gather")->attr_int("axis", 0), rank);
            const auto size = from.tensor_type().dim(static_cast<int>(axis)).constant();
            auto index = static_cast<int64_t>(*m.number("index"));
            if (size && index < 0) index += *size;
            if (!size || index < 0 || index >= *size) return m.refuse("index", "is not known to be within the axis");
            const Range range{axis, index, index + 1, true};
            const SplitProjection whole(m);
            if (const std::string reason = whole.why_not({range}); !reason.empty()) return m.refuse("heads", reason);
            return whole.cut(b, range);
          }};
}

// Squeeze(Split(x)) into parts of size 1 is Gather(x, i).
pattern::Rule unbound() {
  // Each output of the Split is a pattern of its own.
  const auto part = [](size_t i) {
    return Op("Squeeze", "squeeze")
        .further_inputs()(Op("Split", "split").output(i).further_inputs().shared()(any("x")));
  };
  return {"normalize_packed_projection", one_of("part", {part(0), part(1), part(2)}),
          [](const Match& m, Builder& b) -> Outcome {
            const Node& split = *m.node("split");
            const Value* squeezed = m.root();
            const int rank = m["x"]->tensor_type().rank();
            if (squeezed->tensor_type().rank() != rank - 1) return m.refuse("squeeze", "drops no axis");
            const int64_t axis = from_front(split.attr_int("axis", 0), rank);
            for (size_t i = 0; i < split.output_count(); ++i)
              if (!split.output(i) || !split.output(i)->tensor_type().dim(static_cast<int>(axis)).is(1))
                return m.refuse("split", "its parts have several elements");
            Dims rest = *dims(split.output(0));
            rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(axis));
            if (squeezed->tensor_type().shape != rest) return m.refuse("squeeze", "drops another axis");
            Value* index = b.constant(Tensor::scalar(static_cast<int64_t>(m.choice("part"))));
            return b.op("Gather", {m["x"], index}, {{"axis", axis}});
          }};
}

// Gather(Transpose(Reshape(p)), i) over the axis that counts the operands is a Transpose of a Reshape of a Slice of p.
pattern::Rule gathered() {
  Pat split = Op("Reshape", "reshaped").shared()(any("packed"), any());
  Pat transposed = one_of("order", {Op("Transpose", "transposed").shared()(split), split});
  return {"normalize_packed_projection", Op("Gather", "gather")(transposed, pattern::scalar("index")),
          [](const Match& m, Builder& b) -> Outcome {
            const Node& gather = *m.node("gather");
            const std::vector<int64_t> perm = order_of(m, m["reshaped"]);
            if (perm.empty()) return m.refuse("gather", "selects from axes that are not known");
            const int64_t axis = from_front(gather.attr_int("axis", 0), static_cast<int64_t>(perm.size()));
            const auto counted = static_cast<size_t>(perm[static_cast<size_t>(axis)]);  // in the reshaped tensor
            if (!splits_last_axis(m["packed"], m["reshaped"]) || counted != dims(m["packed"])->size() - 1)
              return m.refuse("reshaped", "does not split the last axis into operands first");
            const Dims& reshaped = *dims(m["reshaped"]);
            std::vector<int64_t> target(counted, 0);
            int64_t width = 1;
            for (size_t i = counted + 1; i < reshaped.size(); ++i) {
              const auto size = reshaped[i].constant();
              if (!size) return m.refuse("reshaped", "has sizes of heads that are not constants");
              target.push_back(*size);
              width *= *size;
            }
            const auto index = static_cast<int64_t>(*m.number("index"));
            if (index < 0) return m.refuse("index", "is negative");
            Value* part = b.op("Slice", {m["packed"], b.integers({index * width}), b.integers({(index + 1) * width}),
                                         b.integers({-1})});
            std::vector<int64_t> rest;
            for (const int64_t p : perm)
              if (static_cast<size_t>(p) != counted) rest.push_back(static_cast<size_t>(p) > counted ? p - 1 : p);
            if (target.size() != counted + 1) part = b.reshape(part, target);
            return std::is_sorted(rest.begin(), rest.end()) ? part : b.transpose(part, rest);
          }};
}

// Transpose(x W + b, (1, 0, 2)) = Transpose(x, (1, 0, 2)) W + b
pattern::Rule transposed_projection() {
  Pat product = Op("MatMul")(any("x"), any("weight"));
  Pat projected = one_of("biased", {Op("Add")(product, any("bias")), product});
  return {"normalize_projection", Op("Transpose").attr("perm", {1, 0, 2})(projected),
          [](const Match& m, Builder& b) -> Outcome {
            if (const std::string reason = why_not_cut(m); !reason.empty()) return m.refuse("weight", reason);
            Value* result = b.op("MatMul", {b.transpose(m["x"], {1, 0, 2}), m["weight"]});
            return m["bias"] ? b.op("Add", {result, m["bias"]}) : result;
          }};
}

// Transpose(s x) = s Transpose(x)
pattern::Rule transposed_scale() {
  Pat x = any("x"), factor = pattern::scalar("factor");
  Pat scaled = one_of("scaling", {Op("Mul", "scaled")(x, factor), Op("Div", "scaled by")(x, factor)});
  return {"normalize_projection", Op("Transpose").attr("perm", {1, 0, 2})(scaled),
          [](const Match& m, Builder& b) -> Outcome {
            if (m["x"]->tensor_type().rank() != 3) return m.refuse("x", "is not of rank 3");
            return b.op(m.choice("scaling") == 0 ? "Mul" : "Div", {b.transpose(m["x"], {1, 0, 2}), m["factor"]});
          }};
}

}  // namespace

namespace rules {

std::vector<pattern::Rule> projection_forms() {
  return {unbound(), sliced_off(), gather_of_heads(), gathered(),
          sliced(),  split(),      split_of_heads(),  slice_of_heads()};
}

}  // namespace rules

size_t normalize_projections(PassContext& context) {
  const std::vector<pattern::Rule> list = {transposed_projection(), transposed_scale(), rules::unsqueezed_layer()};
  return pattern::apply_rules(list, context);
}

}  // namespace attune
