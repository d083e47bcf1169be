// One product for several operands (packed Q, K, V) becomes one for each:  (x W + b)[.., i:j] = x W[.., i:j] + b[i:j]
#include <fmt/format.h>

#include <algorithm>

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

// Columns [begin, end) of a constant over its last axis.
Tensor columns(const Tensor& whole, int64_t begin, int64_t end) {
  const Tensor dense = whole.to_contiguous();
  Shape shape = dense.shape();
  const int64_t width = shape.back(), rows = shape.count() / std::max<int64_t>(1, width);
  shape.back() = end - begin;
  Tensor part = Tensor::allocate(dense.type(), shape);
  const size_t element = dense.bytes() / static_cast<size_t>(dense.count());
  for (int64_t r = 0; r < rows; ++r)
    std::copy_n(dense.raw() + static_cast<size_t>(r * width + begin) * element,
                static_cast<size_t>(end - begin) * element,
                part.mutable_raw() + static_cast<size_t>(r * (end - begin)) * element);
  return part;
}

// Why the projection can't be cut; empty if it can.
std::string why_not_cut(const Match& m) {
  const Value* weight = m["weight"];
  if (!weight->constant() || weight->tensor_type().rank() != 2 || !is_float(weight->element_type()))
    return "its weight is not a constant matrix";
  if (weight->uses().size() > 1) return "its weight has other users, and would be copied for them";
  const Value* bias = m["bias"];
  if (bias && (!bias->constant() || bias->tensor_type().rank() != 1 ||
               !(bias->tensor_type().dim(0) == weight->tensor_type().dim(1))))
    return "its bias is not a constant vector";
  return {};
}

Value* cut_projection(const Match& m, Builder& b, int64_t begin, int64_t end) {
  Value* product = b.op("MatMul", {m["x"], b.constant(columns(*m["weight"]->constant(), begin, end))});
  if (!m["bias"]) return product;
  return b.op("Add", {product, b.constant(columns(*m["bias"]->constant(), begin, end))});
}

// The part that a Slice takes of the last axis; nothing if it isn't known or takes more than that axis.
struct Range {
  int64_t begin, end;
};

std::optional<Range> range_of_last_axis(const Node& slice, const Inference& inference) {
  const TensorType& type = slice.input(0)->tensor_type();
  const auto width = type.dim(-1).constant();
  std::vector<int64_t> fields[4];  // starts, ends, axes, steps
  for (size_t i = 0; i < 4; ++i) {
    if (!slice.input(i + 1)) continue;
    const auto known = inference.constant_integers(slice.input(i + 1));
    if (!known || known->size() != 1) return std::nullopt;
    fields[i] = *known;
  }
  if (!width || fields[0].empty() || fields[1].empty() || fields[2].empty()) return std::nullopt;
  if (!fields[3].empty() && fields[3][0] != 1) return std::nullopt;
  if (fields[2][0] != -1 && fields[2][0] != type.rank() - 1) return std::nullopt;
  const auto clamp = [&](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + *width : i, 0, *width); };
  const Range range{clamp(fields[0][0]), clamp(fields[1][0])};
  return range.begin < range.end ? std::optional(range) : std::nullopt;
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
            if (projection(m)->uses().size() > 1) return m.refuse("projection", "is also used as a whole");
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

// Gather(Transpose(Reshape(p)), i) over the axis that counts the operands is a Transpose of a Reshape of a Slice of p.
pattern::Rule gathered() {
  Pat split = Op("Reshape", "reshaped").shared()(any("packed"), any());
  Pat transposed = Op("Transpose", "transposed").shared()(split);
  return {"normalize_packed_projection", Op("Gather", "gather")(transposed, pattern::scalar("index")),
          [](const Match& m, Builder& b) -> Outcome {
            const Node& gather = *m.node("gather");
            const auto &packed = m["packed"]->tensor_type().shape, &reshaped = m["reshaped"]->tensor_type().shape;
            const std::vector<int64_t> perm = m.node("transposed")->attr_ints("perm");
            if (!packed || !reshaped || perm.size() != reshaped->size() || m["index"]->tensor_type().rank() != 0)
              return m.refuse("gather", "does not select one of the operands");
            int64_t axis = gather.attr_int("axis", 0);
            if (axis < 0) axis += static_cast<int64_t>(perm.size());
            const auto counted = static_cast<size_t>(perm[static_cast<size_t>(axis)]);  // in the reshaped tensor
            const size_t leading = packed->size() - 1;
            if (counted != leading || !std::equal(packed->begin(), packed->end() - 1, reshaped->begin()))
              return m.refuse("reshaped", "does not split the last axis into operands first");
            std::vector<int64_t> target(leading, 0);
            int64_t width = 1;
            for (size_t i = counted + 1; i < reshaped->size(); ++i) {
              const auto size = (*reshaped)[i].constant();
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
            if (target.size() != leading + 1) part = b.reshape(part, target);
            return b.transpose(part, rest);
          }};
}

// Transpose(x W + b, (1, 0, 2)) = Transpose(x, (1, 0, 2)) W + b
pattern::Rule transposed_projection() {
  Pat product = Op("MatMul")(any("x"), any("weight"));
  Pat projected = one_of("biased", {Op("Add")(product, any("bias")), product});
  return {"normalize_projection", Op("Transpose").attr("perm", {1, 0, 2})(projected),
          [](const Match& m, Builder& b) -> Outcome {
            if (const std::string reason = why_not_cut(m); !reason.empty()) return m.refuse("weight", reason);
            if (m["x"]->tensor_type().rank() != 3) return m.refuse("x", "is not of rank 3");
            Value* result = b.op("MatMul", {b.transpose(m["x"], {1, 0, 2}), m["weight"]});
            return m["bias"] ? b.op("Add", {result, m["bias"]}) : result;
          }};
}

}  // namespace

namespace rules {

std::vector<pattern::Rule> projection_forms() { return {gathered(), sliced(), split()}; }

}  // namespace rules

size_t normalize_projections(PassContext& context) {
  const std::vector<pattern::Rule> list = {transposed_projection()};
  return pattern::apply_rules(list, context, false);
}

}  // namespace attune
