// Reshapes and transposes that together are a plain Reshape and one Transpose, as the attention rules expect them.
#include <algorithm>
#include <optional>

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

// Reshape(Transpose(Reshape(x), perm)) with the parts captured as "x", "folded" and the root.
Pat folded_transpose(std::initializer_list<int64_t> perm) {
  Pat folded = Op("Reshape", "folded").shared()(any("x"), any());
  return Op("Reshape", "unfolded")(Op("Transpose").attr("perm", perm).shared()(folded), any());
}

// (B, H, T, E) -> (B H, T, E) -> (B H, E, T) -> (B, H, E, T): dynamo's transpose of keys; perhaps of groups
// (B, G, r, T, E) of heads that were repeated.
pattern::Rule key_round_trip() {
  return {"normalize_transpose", folded_transpose({0, 2, 1}), [](const Match& m, Builder& b) -> Outcome {
            const Dims *x = dims(m["x"]), *folded = dims(m["folded"]), *out = dims(m["unfolded"]);
            if (!x || !folded || !out || x->size() < 4 || !((*x)[x->size() - 2] == (*folded)[1]) ||
                !(x->back() == (*folded)[2]))
              return m.refuse("folded", "does not fold the axes in front of the last two");
            const Dim &time = (*x)[x->size() - 2], &width = x->back();
            if (x->size() == 4 && *out == Dims{(*x)[0], (*x)[1], width, time}) return b.transpose(m["x"], {0, 1, 3, 2});
            const auto heads = ((*x)[1] * (*x)[2]).constant(), size = width.constant();
            if (!heads || !size || *out != Dims{(*x)[0], *heads, width, time})
              return m.refuse("unfolded", "does not give the axes back that were folded");
            return b.transpose(b.reshape(m["x"], {0, *heads, -1, *size}), {0, 1, 3, 2});
          }};
}

// The heads, two at least, and the width of a head where (.., H E) is folded to (.. H, E); nothing if they aren't
// constants.
struct HeadSizes {
  int64_t count, width;
};

std::optional<HeadSizes> head_sizes(const Dim& all, const Dim& one) {
  const auto total = all.constant(), width = one.constant();
  if (!total || !width || *width <= 0 || *total <= *width || *total % *width != 0) return std::nullopt;
  return HeadSizes{*total / *width, *width};
}

Value* size_of_axis(Builder& b, Value* x, int64_t axis) {
  return b.op("Slice", {b.op("Shape", {x}), b.integers({axis}), b.integers({axis + 1})});
}

// (T, B, H E) -> (T, B H, E) -> (B H, T, E), or with the last two swapped, as nn.MultiheadAttention and fairseq have
// it: the same through (B, H, T, E).
pattern::Rule time_first(bool swapped) {
  const std::initializer_list<int64_t> heads_first = {1, 0, 2}, keys = {1, 2, 0};
  Pat folded = Op("Reshape", "folded").shared()(any("x"), any());
  return {"normalize_transpose", Op("Transpose").attr("perm", swapped ? keys : heads_first)(folded),
          [swapped](const Match& m, Builder& b) -> Outcome {
            const Dims *x = dims(m["x"], 3), *folded = dims(m["folded"]);
            if (!x || !folded || !((*x)[0] == (*folded)[0]))
              return m.refuse("folded", "does not fold heads into the batch");
            const auto heads = head_sizes((*x)[2], (*folded)[2]);
            if (!heads) return m.refuse("folded", "does not split the last axis into heads");
            Value* split = b.transpose(b.reshape(m["x"], {0, 0, heads->count, heads->width}), {1, 2, 0, 3});
            Value* target = b.op("Concat", {b.integers({-1}), size_of_axis(b, m["x"], 0), b.integers({heads->width})},
                                 {{"axis", int64_t{0}}});
            Value* result = b.op("Reshape", {split, target});
            return swapped ? b.transpose(result, {0, 2, 1}) : result;
          }};
}

// And back: (B H, T, E) -> (T, B H, E) -> (T, B, H E), or (T B, H E)
pattern::Rule back_to_time_first() {
  Pat transposed = Op("Transpose").attr("perm", {1, 0, 2})(any("x"));
  return {"normalize_transpose", Op("Reshape", "merged")(transposed, any()), [](const Match& m, Builder& b) -> Outcome {
            const Dims *x = dims(m["x"]), *merged = dims(m["merged"]);
            if (!x || !merged || merged->empty()) return m.refuse("merged", "does not merge heads");
            const auto heads = head_sizes(merged->back(), (*x)[2]);
            if (!heads) return m.refuse("merged", "does not merge heads");
            const bool keeps_time = merged->size() == 3 && (*x)[1] == (*merged)[0];
            // Rows of the batch alone, each of all heads.
            const bool whole_rows = Dim::floor_divide((*x)[0], heads->count) * heads->count == (*x)[0];
            if (!keeps_time && !(merged->size() == 2 && whole_rows)) return m.refuse("merged", "does not merge heads");
            Value* target =
                b.op("Concat", {b.integers({-1, heads->count}), size_of_axis(b, m["x"], 1), b.integers({heads->width})},
                     {{"axis", int64_t{0}}});
            Value* split = b.transpose(b.op("Reshape", {m["x"], target}), {2, 0, 1, 3});
            Value* states = b.reshape(split, {0, 0, heads->count * heads->width});
            return keeps_time ? states : b.reshape(states, {-1, heads->count * heads->width});
          }};
}

// The only axis of a Squeeze or Unsqueeze, counted from the front of the larger of its shapes.
std::optional<int64_t> only_axis(const Node& n, const Inference& inference) {
  const auto axes = axes_of(n, inference);
  return axes && axes->size() == 1 ? std::optional(axes->front()) : std::nullopt;
}

// `perm` without `axis` of what is transposed.
std::vector<int64_t> without_axis(const std::vector<int64_t>& perm, int64_t axis) {
  std::vector<int64_t> rest;
  for (const int64_t p : perm)
    if (p != axis) rest.push_back(p > axis ? p - 1 : p);
  return rest;
}

// Squeeze(Transpose(Unsqueeze(x))) of one axis is a Transpose of x.
pattern::Rule unsqueezed_transpose() {
  Pat unsqueezed = Op("Unsqueeze", "unsqueezed").further_inputs().shared()(any("x"));
  Pat transposed = Op("Transpose", "transposed").shared()(unsqueezed);
  return {"normalize_transpose", Op("Squeeze", "squeezed").further_inputs()(transposed),
          [](const Match& m, Builder& b) -> Outcome {
            const auto added = only_axis(*m.node("unsqueezed"), m.inference()),
                       removed = only_axis(*m.node("squeezed"), m.inference());
            const std::vector<int64_t> perm = m.node("transposed")->attr_ints("perm");
            if (!added || !removed || perm.empty() || perm[static_cast<size_t>(*removed)] != *added)
              return m.refuse("squeezed", "does not take away the axis that was added");
            return b.transpose(m["x"], without_axis(perm, *added));
          }};
}

constexpr int kRankOfPackedHeads = 5;  // (B, T, H, 1, E), a part of packed projections

// Squeeze(Transpose(x)) = Transpose(Squeeze(x))
pattern::Rule squeezed_transpose() {
  return {"normalize_transpose",
          Op("Squeeze", "squeezed").further_inputs()(Op("Transpose", "transposed").shared()(any("x"))),
          [](const Match& m, Builder& b) -> Outcome {
            const auto removed = only_axis(*m.node("squeezed"), m.inference());
            const std::vector<int64_t> perm = m.node("transposed")->attr_ints("perm");
            if (!removed || perm.size() != kRankOfPackedHeads)
              return m.refuse("squeezed", "does not take away one of five axes");
            const int64_t axis = perm[static_cast<size_t>(*removed)];
            return b.transpose(b.squeeze(m["x"], {axis}), without_axis(perm, axis));
          }};
}

// Squeeze(Reshape(x)) = Reshape(x)
pattern::Rule squeezed_reshape() {
  return {"normalize_reshape",
          Op("Squeeze", "squeezed").further_inputs()(Op("Reshape", "reshaped").shared()(any("x"), any())),
          [](const Match& m, Builder& b) -> Outcome {
            const Dims *x = dims(m["x"]), *reshaped = dims(m["reshaped"]), *result = dims(m["squeezed"]);
            if (!x || !reshaped || !result || reshaped->size() != result->size() + 1 || result->size() < 3)
              return m.refuse("squeezed", "does not take away one axis of four or more");
            std::vector<int64_t> target;
            for (size_t i = 0; i < result->size(); ++i) {
              const auto size = (*result)[i].constant();
              const bool kept = i < x->size() && (*result)[i] == (*x)[i];
              if (!kept && !(size && *size > 0)) return m.refuse("reshaped", "gives sizes that are not constants");
              target.push_back(size && *size > 0 ? *size : 0);
            }
            return b.reshape(m["x"], target);
          }};
}

// (B, T, E) -> (B, T, 1, E) -> (1, B, T, E), a part of packed projections, without the transpose.
pattern::Rule part_to_front() {
  Pat split = Op("Reshape", "split").shared()(any("x"), any());
  return {"normalize_transpose", Op("Transpose").attr("perm", {2, 0, 1, 3})(split),
          [](const Match& m, Builder& b) -> Outcome {
            const Dims* x = dims(m["x"], 3);
            if (!x || m["split"]->tensor_type().shape != Dims{(*x)[0], (*x)[1], 1, (*x)[2]})
              return m.refuse("split", "does not add an axis of size 1 in front of the last one");
            return b.unsqueeze(m["x"], {0});
          }};
}

// Reshape(Unsqueeze(x)) = Reshape(x)
pattern::Rule unsqueezed_reshape() {
  Pat unsqueezed = Op("Unsqueeze", "unsqueezed").further_inputs().shared()(any("x"));
  return {"normalize_reshape", Op("Reshape", "reshaped")(unsqueezed, any("target")),
          [](const Match& m, Builder& b) -> Outcome {
            const Dims* x = dims(m["x"]);
            const auto target = m.inference().integers(m["target"]);
            if (!x || x->size() < 3) return m.refuse("x", "is not of rank 3 or more");
            const auto may_keep = [](const Dim& d) { return !d.known() || d.is(0); };
            if (!target || std::any_of(target->begin(), target->end(), may_keep))
              return m.refuse("target", "keeps sizes of its input");
            return b.op("Reshape", {m["x"], m["target"]}, m.node("reshaped")->attributes());
          }};
}

}  // namespace

namespace rules {

std::vector<pattern::Rule> transpose_forms() {
  return {key_round_trip(),     time_first(false),  time_first(true), back_to_time_first(), unsqueezed_transpose(),
          squeezed_transpose(), squeezed_reshape(), part_to_front(),  unsqueezed_reshape()};
}

}  // namespace rules
}  // namespace attune
