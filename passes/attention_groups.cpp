#include "passes/attention_groups.h"

#include <algorithm>

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
  if (!n || rank < 2) return nullptr;
  if (n->is("Tile")) {
    const auto repeats = inference.constant_integers(n->input(1));
    std::vector<int64_t> wanted(static_cast<size_t>(rank), 1);
    wanted[wanted.size() - 2] = times;
    return repeats == wanted ? n->input(0) : nullptr;
  }
  const int64_t axis = n->is("Concat") ? n->attr_int("axis", 0) : 0;
  if (!n->is("Concat") || (axis != -2 && axis != rank - 2) || static_cast<int64_t>(n->inputs().size()) != times)
    return nullptr;
  return repeated_by(*n);
}

// The mask with the axis of size 1 that an Expand or Tile copies along, where `apart` has axes (r, T) or (T, r).
Value* before_copies(Value* apart, size_t axis) {
  const Node* n = apart->producer();
  if (!n || (!n->is("Expand") && !n->is("Tile"))) return nullptr;
  const auto &from = n->input(0)->tensor_type().shape, &to = apart->tensor_type().shape;
  if (!from || !to || from->size() != to->size() || !(*from)[axis].is(1)) return nullptr;
  for (size_t i = 0; i < to->size(); ++i)
    if (i != axis && !((*from)[i] == (*to)[i])) return nullptr;
  return n->input(0);
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
  if ((rows.size() != 3 && rows.size() != 4) || apart.size() != rows.size() + 1 || !(rows.back() == apart.back()) ||
      !(rows[at] == apart[at] * apart[at + 1]) ||
      !std::equal(rows.begin(), rows.begin() + static_cast<int>(at), apart.begin()))
    return std::nullopt;
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
  const Node* added = mask->producer();
  const int rank = mask->tensor_type().rank();
  if (rank >= 3 && !mask->tensor_type().dim(-3).is(1)) return nullptr;
  if (rank < 2 || mask->tensor_type().dim(-2).is(1)) return mask;
  if (!groups.time_first)
    if (Value* once = before_repetition(mask, groups.heads, b.inference())) return once;
  const auto& rows = mask->tensor_type().shape;
  if (!added || !added->is("Reshape") || rank != 4) return nullptr;
  Value* apart = added->input(0);
  const auto& dims = apart->tensor_type().shape;
  if (!dims || dims->size() != 5 || !(*rows == Dims{(*dims)[0], (*dims)[1], (*dims)[2] * (*dims)[3], (*dims)[4]}))
    return nullptr;
  const size_t axis = groups.time_first ? 3 : 2;
  Value* once = (*dims)[axis].is(groups.heads) ? before_copies(apart, axis) : nullptr;
  return once ? b.squeeze(once, {static_cast<int64_t>(axis)}) : nullptr;
}

}  // namespace attune
