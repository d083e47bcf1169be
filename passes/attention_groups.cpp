#include "passes/attention_groups.h"

#include <algorithm>
#include <array>

#include "passes/node_facts.h"

namespace attune {
namespace {

using pattern::Builder;

bool repeats_along(const std::vector<const Value*>& masks, int axis) {
  return std::all_of(masks.begin(), masks.end(), [&](const Value* mask) {
    const TensorType& type = mask->tensor_type();
    return type.rank() < -axis || type.dim(axis).is(1);
  });
}

// The operand that all inputs of a Concat are; null if there is none.
Value* repeated_by(const Node& concat) {
  Value* first = concat.input(0);
  return std::all_of(concat.inputs().begin(), concat.inputs().end(), [&](const Value* v) { return v == first; })
             ? first
             : nullptr;
}

// What a Tile or Concat repeats along the axis before the last one alone, `times` times.
Value* before_repetition(Value* mask, int64_t times, const Inference& inference) {
  const Node* n = mask->producer();
  const int rank = mask->tensor_type().rank();
  if (n && n->is("Tile")) {
    std::vector<int64_t> wanted(static_cast<size_t>(rank), 1);
    wanted[wanted.size() - 2] = times;
    return inference.constant_integers(n->input(1)) == wanted ? n->input(0) : nullptr;
  }
  if (!n || !n->is("Concat") || from_front(n->attr_int("axis", 0), rank) != rank - 2 ||
      static_cast<int64_t>(n->inputs().size()) != times)
    return nullptr;
  return repeated_by(*n);
}

// What an Expand or Tile copies along `axis` alone.
Value* before_copies(Value* copied, size_t axis) {
  const Node* n = copied->producer();
  if (!n || !is_one_of(*n, std::array{"Expand", "Tile"})) return nullptr;
  Dims once = *copied->tensor_type().shape;
  once[axis] = Dim(1);
  return n->input(0)->tensor_type().shape == once ? n->input(0) : nullptr;
}

// The shape with two axes, from `at` on, as one.
Dims joined(Dims dims, size_t at) {
  dims[at] = dims[at] * dims[at + 1];
  dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  return dims;
}

}  // namespace

Value* before_reshape(Value* x, int kept) {
  const Node* n = x->producer();
  if (!n || !n->is("Reshape") || n->input(0)->tensor_type().rank() <= kept) return x;
  for (int axis = 0; axis < kept; ++axis)
    if (!(n->input(0)->tensor_type().dim(axis) == x->tensor_type().dim(axis))) return x;
  return n->input(0);
}

std::optional<RowGroups> row_groups(const Dims& rows, const Dims& apart, const std::vector<const Value*>& masks,
                                    bool prefer_time_first) {
  const size_t at = rows.size() - 2;  // where the rows are
  if (rows.size() > 4 || apart.size() != rows.size() + 1 || joined(apart, at) != rows) return std::nullopt;
  const auto first = apart[at].constant(), second = apart[at + 1].constant();
  const bool first_may = first && *first > 1 && repeats_along(masks, -3),
             second_may = second && *second > 1 && repeats_along(masks, -2);
  if (!first_may && !second_may) return std::nullopt;
  RowGroups groups;
  if (rows.size() == 4 && !(groups.key_heads = rows[1].constant())) return std::nullopt;
  groups.time_first = !first_may || (second_may && prefer_time_first);
  groups.heads = groups.time_first ? *second : *first;
  return groups;
}

Value* heads_of_rows(Builder& b, Value* rows, const RowGroups& groups) {
  const int64_t width = *rows->tensor_type().dim(-1).constant(), r = groups.heads;
  const int kept = groups.key_heads ? 2 : 1;
  if (!groups.key_heads) {
    if (groups.time_first) {
      Value* x = before_reshape(rows, kept);
      const Dim time = Dim::floor_divide(rows->tensor_type().dim(1), r);
      const TensorType& type = x->tensor_type();
      if (type.rank() == 3 && type.dim(1) == time && type.dim(2).is(r * width)) return x;
      return b.reshape(rows, {0, -1, r * width});
    }
    return b.reshape(b.transpose(b.reshape(rows, {0, r, -1, width}), {0, 2, 1, 3}), {0, 0, r * width});
  }
  const int64_t heads = *groups.key_heads * r;
  Value* apart = before_reshape(rows, kept);
  const Node* t = apart->producer();
  const std::vector<int64_t> from_time =
      groups.time_first ? std::vector<int64_t>{0, 2, 1, 3, 4} : std::vector<int64_t>{0, 2, 3, 1, 4};
  if (apart != rows && apart->tensor_type().rank() == 5 && t && t->is("Transpose") && t->attr_ints("perm") == from_time)
    return b.transpose(b.reshape(before_reshape(t->input(0), 2), {0, 0, heads, width}), {0, 2, 1, 3});
  if (!groups.time_first) return b.reshape(rows, {0, heads, -1, width});
  Value* by_time = b.reshape(rows, {0, *groups.key_heads, -1, r, width});
  return b.reshape(b.transpose(by_time, {0, 1, 3, 2, 4}), {0, heads, -1, width});
}

Value* rows_of_heads(Builder& b, Value* context, const RowGroups& groups, int64_t width) {
  const int64_t r = groups.heads;
  if (!groups.key_heads) {
    if (groups.time_first) return b.reshape(context, {0, -1, width});
    return b.reshape(b.transpose(b.reshape(context, {0, 0, r, width}), {0, 2, 1, 3}), {0, -1, width});
  }
  if (groups.time_first)
    context = b.transpose(b.reshape(context, {0, *groups.key_heads, r, -1, width}), {0, 1, 3, 2, 4});
  return b.reshape(context, {0, *groups.key_heads, -1, width});
}

Value* mask_of_heads(Builder& b, Value* mask, const RowGroups& groups) {
  if (!groups.key_heads && !groups.time_first) return mask;  // the heads are an axis already
  const int axis = groups.time_first ? -2 : -3;              // of the heads of one key head
  const TensorType& type = mask->tensor_type();
  const int rank = type.rank();
  if (rank >= -axis && !type.dim(axis).is(1)) return nullptr;
  if (groups.key_heads && rank >= 4 && !type.dim(-4).is(1)) return nullptr;
  if (rank < -axis || (!groups.time_first && rank < 5)) return mask;
  Value* rest = b.squeeze(mask, {rank + axis});
  return !groups.key_heads && rank == 4 ? b.unsqueeze(rest, {1}) : rest;
}

Value* mask_of_rows(Builder& b, Value* mask, const RowGroups& groups) {
  const int rank = mask->tensor_type().rank();
  if (rank < 0) return nullptr;
  if (rank >= 3 && !mask->tensor_type().dim(-3).is(1)) return nullptr;
  if (rank < 2 || mask->tensor_type().dim(-2).is(1)) return mask;
  if (!groups.time_first)
    if (Value* once = before_repetition(mask, groups.heads, b.inference())) return once;
  const Node* fold = mask->producer();
  if (!fold || !fold->is("Reshape")) return nullptr;
  Value* apart = fold->input(0);
  const auto& dims = apart->tensor_type().shape;
  if (!dims || dims->size() != 5 || joined(*dims, 2) != mask->tensor_type().shape) return nullptr;
  const size_t axis = groups.time_first ? 3 : 2;
  Value* once = (*dims)[axis].is(groups.heads) ? before_copies(apart, axis) : nullptr;
  return once ? b.squeeze(once, {static_cast<int64_t>(axis)}) : nullptr;
}

}  // namespace attune
