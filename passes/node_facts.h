// What several passes ask of a node or a value.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "graph/graph.h"
#include "ops/infer/infer.h"

namespace attune {

// Whether `n` is one of these operators of the standard domain.
template <size_t N>
bool is_one_of(const Node& n, const std::array<const char*, N>& types) {
  return n.domain().empty() && std::any_of(types.begin(), types.end(), [&](const char* t) { return n.type() == t; });
}

// The shape of a tensor; null where not even its rank is known.
inline const Dims* dims(const Value* v) { return v->tensor_type().shape ? &*v->tensor_type().shape : nullptr; }

// The same of a tensor of rank `rank`; null for others.
inline const Dims* dims(const Value* v, size_t rank) {
  const Dims* shape = dims(v);
  return shape && shape->size() == rank ? shape : nullptr;
}

// An axis of a tensor of known rank, counted from the front.
inline int64_t from_front(int64_t axis, int64_t rank) { return axis < 0 ? axis + rank : axis; }

// A constant (size).
inline bool is_constant_vector(const Value& v, const Dim& size) {
  return v.constant() && v.tensor_type().rank() == 1 && v.tensor_type().dim(0) == size;
}

// The axes of a Squeeze or Unsqueeze, counted from the front of the larger of its two shapes, ascending. Nothing if
// they aren't known, or not given.
std::optional<std::vector<int64_t>> axes_of(const Node& n, const Inference& inference);

// Whether a Reshape from `whole` to `split` makes other axes of the last one, and leaves those in front of it.
bool splits_last_axis(const Value* whole, const Value* split);

}  // namespace attune
