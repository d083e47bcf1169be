// Operators that select, repeat, join and reorder elements.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ops/infer/contents.h"
#include "ops/infer/node_inference.h"

namespace attune {
namespace {

// The index of the element at `at` in a tensor of `shape`.
size_t offset(std::span<const int64_t> at, std::span<const int64_t> shape) {
  size_t index = 0;
  for (size_t i = 0; i < shape.size(); ++i) index = index * static_cast<size_t>(shape[i]) + static_cast<size_t>(at[i]);
  return index;
}

// The sizes of output 0, if it is small and the contents of input 0 are known.
std::optional<std::vector<int64_t>> small_output(NodeInference& n, const std::optional<Dims>& shape) {
  if (!shape || !n.contents(0)) return std::nullopt;
  auto sizes = to_sizes(*shape);
  return sizes && small_count(*sizes) ? sizes : std::nullopt;
}

// Output 0 has `shape`, and its element at `at` is the element of input 0 at source(at).
void set_moved(NodeInference& n, std::optional<Dims> shape,
               const std::function<std::vector<int64_t>(std::span<const int64_t>)>& source) {
  n.set(0, n.element(0), shape);
  auto sizes = small_output(n, shape);
  if (!sizes) return;
  const SymbolicTensor& x = *n.contents(0);
  std::vector<size_t> indices;
  for_each_index(*sizes, [&](std::span<const int64_t> at) { indices.push_back(offset(source(at), x.shape)); });
  n.set_contents(0, pick(x, std::move(*sizes), indices));
}

// A list of integers from an input, or (in old opsets) from an attribute.
std::optional<SymbolicTensor> integer_list(NodeInference& n, size_t input, std::string_view attribute) {
  if (const auto* list = n.node().find<std::vector<int64_t>>(attribute))
    return SymbolicTensor{DataType::kInt64, {static_cast<int64_t>(list->size())}, to_dims(*list), {}};
  auto out = n.has(input) ? n.elements(input) : std::nullopt;
  return out && out->is_integer() ? out : std::nullopt;
}

// 'perm' must be a permutation, whatever is known of the input: passes index by it. Its axes don't count from the end.
void check_permutation(NodeInference& n, const std::vector<int64_t>& perm) {
  std::vector<bool> seen(perm.size(), false);
  for (const int64_t p : perm) {
    if (p < 0 || p >= static_cast<int64_t>(perm.size()))
      n.fail(fmt::format("'perm' has axis {} among {} axes", p, perm.size()));
    if (seen[static_cast<size_t>(p)]) n.fail(fmt::format("'perm' has axis {} twice", p));
    seen[static_cast<size_t>(p)] = true;
  }
}

void infer_transpose(NodeInference& n) {
  std::vector<int64_t> perm = n.node().attr_ints("perm");
  check_permutation(n, perm);
  const auto from = n.shape(0);
  if (!from) return n.set(0, n.element(0));
  const size_t rank = from->size();
  if (!n.node().has("perm")) {
    for (size_t i = rank; i-- > 0;) perm.push_back(static_cast<int64_t>(i));
  }
  if (perm.size() != rank) n.fail(fmt::format("'perm' has {} axes for rank {}", perm.size(), rank));
  Dims to;
  for (const int64_t p : perm) to.push_back((*from)[static_cast<size_t>(p)]);
  set_moved(n, std::move(to), [&](std::span<const int64_t> at) {
    std::vector<int64_t> source(rank);
    for (size_t i = 0; i < rank; ++i) source[static_cast<size_t>(perm[i])] = at[i];
    return source;
  });
}

void concat_contents(NodeInference& n, const Dims& shape, size_t axis) {
  auto sizes = to_sizes(shape);
  if (!sizes || !small_count(*sizes)) return;
  std::vector<SymbolicTensor> parts;
  for (size_t i = 0; i < n.input_count(); ++i) {
    auto part = n.elements(i);
    if (!part || part->type != n.element(0)) return;
    parts.push_back(std::move(*part));
  }
  SymbolicTensor out{n.element(0), *sizes, {}, {}};
  for_each_index(*sizes, [&](std::span<const int64_t> at) {
    std::vector<int64_t> source(at.begin(), at.end());
    size_t k = 0;
    while (source[axis] >= parts[k].shape[axis]) source[axis] -= parts[k++].shape[axis];
    const size_t i = offset(source, parts[k].shape);
    if (parts[k].is_integer()) {
      out.integers.push_back(parts[k].integers[i]);
    } else {
      out.reals.push_back(parts[k].reals[i]);
    }
  });
  n.set_contents(0, std::move(out));
}

void infer_concat(NodeInference& n) {
  Dims shape;
  bool first = true;
  size_t axis = 0;
  for (size_t k = 0; k < n.input_count(); ++k) {
    if (!n.has(k)) n.fail(fmt::format("input {} is missing", k));
    const auto part = n.shape(k);
    if (!part) return n.set(0, n.element(0));
    if (first) {
      shape = *part;
      axis = n.axis(n.node().attr_int("axis", 1), shape.size());
      first = false;
      continue;
    }
    if (part->size() != shape.size())
      n.fail(fmt::format("ranks {} and {} can't be joined", shape.size(), part->size()));
    for (size_t i = 0; i < shape.size(); ++i)
      shape[i] = i == axis ? shape[i] + (*part)[i] : n.unify(shape[i], (*part)[i], fmt::format("sizes of axis {}", i));
  }
  n.set(0, n.element(0), shape);
  concat_contents(n, shape, axis);
}

// ---- Slice

constexpr int64_t kFar = INT32_MAX;  // exporters write "to the end" as INT32_MAX or INT64_MAX

// Where a bound lies on an axis of `size`, for steps forward: not before its beginning, maybe beyond its end.
Dim from_begin(const Dim& bound, const Dim& size) {
  const auto constant = bound.constant();
  if (constant && *constant <= -kFar) return 0;
  if (bound.at_least(0)) return bound;
  // -n counts from the end; nobody writes it for an n that may be 0, where it would mean the beginning.
  if ((Dim(0) - bound).at_least(0)) return Dim::maximum(size + bound, 0);
  return {};
}

// At most `size`; what exporters mean by the end is the end.
Dim cut(const Dim& bound, const Dim& size) {
  const auto constant = bound.constant();
  return constant && *constant >= kFar ? size : Dim::minimum(bound, size);
}

int64_t saturating_bound(int64_t bound, int64_t size, int64_t low, int64_t high) {
  if (bound < 0) bound = bound < -size ? low : bound + size;
  return std::clamp(bound, low, high);
}

struct SliceRange {
  Dim count;
  std::optional<int64_t> start;  // index of the first element
};

SliceRange slice_range(const Dim& size, const Dim& start, const Dim& end, int64_t step) {
  const auto s = start.constant(), e = end.constant(), d = size.constant();
  if (step > 0) {
    // A beginning beyond the end leaves nothing, as the end is cut.
    const Dim first = from_begin(start, size), last = cut(from_begin(end, size), size);
    return {Dim::ceil_divide(Dim::maximum(last - first, 0), step), cut(first, size).constant()};
  }
  if (d == 0) return {0, 0};
  if (s && e && d) {
    const int64_t first = saturating_bound(*s, *d, 0, *d - 1), last = saturating_bound(*e, *d, -1, *d - 1);
    return {Dim::maximum(Dim::ceil_divide(last - first, step), 0), first};
  }
  const bool whole = s && e && (*s == -1 || *s >= kFar) && *e <= -kFar;
  return {whole ? Dim::ceil_divide(Dim(0) - size, step) : Dim(), std::nullopt};
}

void infer_slice(NodeInference& n) {
  const auto from = n.shape(0);
  if (!from) return n.set(0, n.element(0));
  const size_t rank = from->size();
  const auto starts = integer_list(n, 1, "starts"), ends = integer_list(n, 2, "ends");
  const auto axes = integer_list(n, 3, "axes"), steps = integer_list(n, 4, "steps");
  const bool axes_given = n.has(3) || n.node().has("axes"), steps_given = n.has(4);
  Dims to = *from;
  std::vector<int64_t> first(rank, 0), stride(rank, 1);
  bool moved = true;
  const size_t count = starts ? starts->size() : ends ? ends->size() : 0;
  if (!starts || !ends || (axes_given && !axes) || (steps_given && !steps)) {
    // Any axis may be cut, or those that are given.
    if (axes && to_sizes(axes->integers)) {
      for (const Dim& a : axes->integers) to[n.axis(*a.constant(), rank)] = Dim();
    } else {
      to.assign(rank, Dim());
    }
    return n.set(0, n.element(0), std::move(to));
  }
  if (ends->size() != count || (axes && axes->size() != count) || (steps && steps->size() != count))
    n.fail("starts, ends, axes and steps have different lengths");
  for (size_t i = 0; i < count; ++i) {
    const auto axis = axes ? axes->integers[i].constant() : std::optional(static_cast<int64_t>(i));
    if (!axis) return n.set(0, n.element(0), Dims(rank));
    const size_t a = n.axis(*axis, rank);
    const auto step = steps ? steps->integers[i].constant() : std::optional<int64_t>(1);
    if (step == 0 || step == INT64_MIN) n.fail(fmt::format("a step of {}", *step));
    const auto range = step ? slice_range((*from)[a], starts->integers[i], ends->integers[i], *step) : SliceRange();
    to[a] = range.count;
    moved = moved && range.start && step;
    if (moved) first[a] = *range.start, stride[a] = *step;
  }
  if (!moved) return n.set(0, n.element(0), std::move(to));
  set_moved(n, std::move(to), [&](std::span<const int64_t> at) {
    std::vector<int64_t> source(rank);
    for (size_t i = 0; i < rank; ++i) source[i] = first[i] + at[i] * stride[i];
    return source;
  });
}

// ---- Gather and scatter

void infer_gather(NodeInference& n) {
  const auto from = n.shape(0), indices = n.shape(1);
  if (!from || !indices) return n.set(0, n.element(0));
  const size_t axis = n.axis(n.node().attr_int("axis", 0), from->size());
  const auto at_axis = static_cast<std::ptrdiff_t>(axis);
  Dims to(from->begin(), from->begin() + at_axis);
  to.insert(to.end(), indices->begin(), indices->end());
  to.insert(to.end(), from->begin() + at_axis + 1, from->end());
  n.set(0, n.element(0), to);
  const auto sizes = small_output(n, to);
  const auto chosen = n.elements(1);
  if (!sizes || !chosen || !chosen->is_integer()) return;
  const SymbolicTensor& x = *n.contents(0);
  auto out = *unknown_contents(x.type, to);
  size_t next = 0;
  for_each_index(*sizes, [&](std::span<const int64_t> at) {
    const size_t i = next++;
    const auto index = chosen->integers[offset(at.subspan(axis, chosen->shape.size()), chosen->shape)].constant();
    if (!index) return;
    std::vector<int64_t> source(at.begin(), at.begin() + at_axis);
    source.push_back(static_cast<int64_t>(0));
    const int64_t size = x.shape[axis];
    if (*index < -size || *index >= size) n.fail(fmt::format("index {} is outside [-{}, {})", *index, size, size));
    source.back() = *index < 0 ? *index + size : *index;
    const auto rest = at.subspan(axis + chosen->shape.size());
    source.insert(source.end(), rest.begin(), rest.end());
    const size_t from_index = offset(source, x.shape);
    if (x.is_integer()) {
      out.integers[i] = x.integers[from_index];
    } else {
      out.reals[i] = x.reals[from_index];
    }
  });
  n.set_contents(0, std::move(out));
}

void infer_gather_elements(NodeInference& n) { n.set(0, n.element(0), n.shape(1)); }

void infer_gather_nd(NodeInference& n) {
  const auto from = n.shape(0), indices = n.shape(1);
  const Dim last = indices && !indices->empty() ? indices->back() : Dim();
  const int64_t batch = n.node().attr_int("batch_dims", 0);
  if (!from || !last.constant()) return n.set(0, n.element(0));
  const int64_t depth = last.constant().value_or(0);
  const auto rank = static_cast<int64_t>(from->size());
  if (batch < 0 || depth < 1 || depth > rank - batch)
    n.fail(fmt::format("indices of {} axes for rank {}", depth, rank));
  Dims to(indices->begin(), indices->end() - 1);
  to.insert(to.end(), from->begin() + (batch + depth), from->end());
  n.set(0, n.element(0), std::move(to));
}

void like_first(NodeInference& n) { n.set(0, n.element(0), n.shape(0)); }

// ---- Repetition

void infer_expand(NodeInference& n) {
  const auto from = n.shape(0);
  const auto target = n.elements(1);
  if (!from || !target || !target->is_integer()) return n.set(0, n.element(0));
  const Dims to = n.broadcast(*from, target->integers);
  const size_t rank = to.size() - from->size();
  set_moved(n, to, [&](std::span<const int64_t> at) {
    std::vector<int64_t> source(at.begin() + static_cast<std::ptrdiff_t>(rank), at.end());
    for (size_t i = 0; i < source.size(); ++i)
      if ((*from)[i].is(1)) source[i] = 0;
    return source;
  });
}

void infer_tile(NodeInference& n) {
  const auto from = n.shape(0);
  const auto repeats = n.elements(1);
  if (!from) return n.set(0, n.element(0));
  Dims to(from->size());
  if (repeats && repeats->is_integer()) {
    if (repeats->size() != from->size()) n.fail(fmt::format("{} repeats for rank {}", repeats->size(), from->size()));
    for (size_t i = 0; i < to.size(); ++i) to[i] = (*from)[i] * repeats->integers[i];
  }
  set_moved(n, std::move(to), [&](std::span<const int64_t> at) {
    std::vector<int64_t> source(at.begin(), at.end());
    for (size_t i = 0; i < source.size(); ++i) source[i] %= *(*from)[i].constant();
    return source;
  });
}

void infer_pad(NodeInference& n) {
  const auto from = n.shape(0);
  if (!from) return n.set(0, n.element(0));
  const size_t rank = from->size();
  const auto pads = integer_list(n, 1, n.node().has("paddings") ? "paddings" : "pads");
  const auto axes = n.has(3) ? n.constant_integers(3) : std::nullopt;
  if (!pads || (n.has(3) && !axes)) return n.set(0, n.element(0), Dims(rank));
  const size_t count = axes ? axes->size() : rank;
  if (pads->size() != 2 * count) n.fail(fmt::format("{} pads for {} axes", pads->size(), count));
  Dims to = *from;
  for (size_t i = 0; i < count; ++i) {
    const size_t a = axes ? n.axis((*axes)[i], rank) : i;
    to[a] = to[a] + pads->integers[i] + pads->integers[count + i];
  }
  n.set(0, n.element(0), std::move(to));
}

// ---- Split

// Sizes along the axis: given, or equal parts (the last may be smaller).
Dims split_sizes(NodeInference& n, const Dim& size) {
  const auto parts = static_cast<int64_t>(n.output_count());
  Dims out(n.output_count());
  if (const auto given = integer_list(n, 1, "split")) {
    if (given->size() < out.size()) n.fail(fmt::format("{} sizes for {} outputs", given->size(), out.size()));
    std::copy_n(given->integers.begin(), out.size(), out.begin());
    return out;
  }
  if (n.has(1)) return out;
  const int64_t count = n.node().attr_int("num_outputs", parts);
  if (count < parts || count < 1) n.fail(fmt::format("{} parts for {} outputs", count, parts));
  const Dim part = Dim::ceil_divide(size, count);
  for (int64_t k = 0; k < parts; ++k) {
    // What is left may be less than a part, and nothing: 5 elements in 4 parts are 2, 2, 1, 0.
    const Dim left = size - part * Dim(k);
    const bool two = count == 2;  // of which the first is never the smaller
    out[static_cast<size_t>(k)] = k == 0 ? part : two ? left : Dim::minimum(part, Dim::maximum(left, 0));
  }
  return out;
}

void infer_split(NodeInference& n) {
  const auto from = n.shape(0);
  const SymbolicTensor* x = n.contents(0);
  if (!from) {
    for (size_t k = 0; k < n.output_count(); ++k) n.set(k, n.element(0));
    return;
  }
  const size_t axis = n.axis(n.node().attr_int("axis", 0), from->size());
  const Dims sizes = split_sizes(n, (*from)[axis]);
  std::optional<int64_t> begin = 0;  // of the next part, if it is known
  for (size_t k = 0; k < n.output_count(); ++k) {
    Dims to = *from;
    to[axis] = sizes[k];
    n.set(k, n.element(0), to);
    auto part = x && begin ? to_sizes(to) : std::nullopt;
    if (!part || !small_count(*part) || *begin + (*part)[axis] > x->shape[axis]) {
      begin.reset();
      continue;
    }
    std::vector<size_t> indices;
    for_each_index(*part, [&](std::span<const int64_t> at) {
      std::vector<int64_t> source(at.begin(), at.end());
      source[axis] += *begin;
      indices.push_back(offset(source, x->shape));
    });
    *begin += (*part)[axis];
    n.set_contents(k, pick(*x, std::move(*part), indices));
  }
}

}  // namespace

InferRules movement_rules() {
  return {
      {"", "Transpose", 1, infer_transpose},
      {"", "Concat", 1, infer_concat},
      {"", "Slice", 1, infer_slice},
      {"", "Gather", 2, infer_gather},
      {"", "GatherElements", 2, infer_gather_elements},
      {"", "GatherND", 2, infer_gather_nd},
      {"", "Scatter", 3, like_first},
      {"", "ScatterElements", 3, like_first},
      {"", "ScatterND", 3, like_first},
      {"", "TensorScatter", 2, like_first},
      {"", "ReverseSequence", 2, like_first},
      {"", "Expand", 2, infer_expand},
      {"", "Tile", 2, infer_tile},
      {"", "Pad", 1, infer_pad},
      {"", "Split", 1, infer_split},
  };
}

}  // namespace attune
