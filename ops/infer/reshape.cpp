// Operators that keep the elements in order under another shape.
#include <fmt/format.h>

#include <algorithm>

#include "ops/infer/contents.h"
#include "ops/infer/node_inference.h"

namespace attune {
namespace {

Dim product(const Dims& dims, size_t begin, size_t end) {
  Dim out(1);
  for (size_t i = begin; i < end; ++i) out = out * dims[i];
  return out;
}

// Output 0 has the elements of input 0 in the same order.
void set_reshaped(NodeInference& n, std::optional<Dims> shape) {
  n.set(0, n.element(0), shape);
  const SymbolicTensor* x = n.contents(0);
  auto sizes = x && shape ? to_sizes(*shape) : std::nullopt;
  if (!sizes || small_count(*sizes) != x->size()) return;
  SymbolicTensor out = *x;
  out.shape = std::move(*sizes);
  n.set_contents(0, std::move(out));
}

// Where the numbers of elements differ by name only, one size has another name in the input: (a, t, 32) as (b, t, 4, 8)
// says that b is a. The input's is taken, so that what is split and merged keeps its names.
void adopt_size(const Dim& all, const Dim& product_of_sizes, Dims& to) {
  if (!all.known() || all == product_of_sizes || all.constant()) return;
  for (Dim& size : to) {
    if (size.constant()) continue;
    const Dim rest = Dim::floor_divide(product_of_sizes, size), other = Dim::floor_divide(all, rest);
    if (!(rest * size == product_of_sizes) || !(rest * other == all) || other.constant()) continue;
    size = other;
    return;
  }
}

// One size that is -1 or unknown follows from the number of elements.
void fill_missing(NodeInference& n, const Dims& from, Dims& to) {
  size_t missing = to.size();
  Dim rest(1);
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i].known()) {
      rest = rest * to[i];
    } else if (missing == to.size()) {
      missing = i;
    } else {
      return;
    }
  }
  const Dim all = product(from, 0, from.size());
  const auto count = all.constant(), others = rest.constant();
  const auto mismatch = [&] { n.fail(fmt::format("{} can't be reshaped to {}", to_string(from), to_string(to))); };
  if (missing == to.size()) {
    if (count && others && *count != *others) mismatch();
    n.relate(all, rest);
    return adopt_size(all, rest, to);
  }
  if (!all.known() || others == 0) return;
  if (count && others && *count % *others != 0) mismatch();
  to[missing] = n.part(all, rest);
}

void infer_reshape(NodeInference& n) {
  std::optional<SymbolicTensor> target;
  if (n.node().has("shape")) {  // before opset 5
    const auto sizes = n.node().attr_ints("shape");
    target = SymbolicTensor{DataType::kInt64, {static_cast<int64_t>(sizes.size())}, to_dims(sizes), {}};
  } else {
    target = n.elements(1);
  }
  if (!target || !target->is_integer()) return n.set(0, n.element(0));
  const bool zero_copies = n.node().attr_int("allowzero", 0) == 0;
  const auto& from = n.shape(0);
  Dims to = target->integers;
  const bool inferred = std::any_of(to.begin(), to.end(), [](const Dim& d) { return d.is(-1); });
  bool unknown = false;
  for (size_t i = 0; i < to.size(); ++i) {
    const auto size = to[i].constant();
    if (size && *size < -1) n.fail(fmt::format("a size of {}", *size));
    unknown = unknown || !to[i].known();
    if (size == -1) to[i] = Dim();
    if (size == 0 && zero_copies) {
      if (from && i >= from->size()) n.fail(fmt::format("size 0 at axis {} of an input of rank {}", i, from->size()));
      to[i] = from ? (*from)[i] : Dim();
      unknown = unknown || !to[i].known();
    }
  }
  const bool two_missing = inferred && unknown;
  if (from && !two_missing) fill_missing(n, *from, to);
  set_reshaped(n, std::move(to));
}

void infer_flatten(NodeInference& n) {
  const auto& from = n.shape(0);
  if (!from) return n.set(0, n.element(0), Dims{Dim(), Dim()});
  const int64_t axis = n.node().attr_int("axis", 1);
  const size_t at = axis == static_cast<int64_t>(from->size()) ? from->size() : n.axis(axis, from->size());
  set_reshaped(n, Dims{product(*from, 0, at), product(*from, at, from->size())});
}

// Axes are an attribute before opset 13, an input from there on.
bool axes_known(NodeInference& n, std::optional<std::vector<int64_t>>& axes) {
  if (const auto* list = n.node().find<std::vector<int64_t>>("axes")) {
    axes = *list;
  } else if (n.has(1)) {
    axes = n.constant_integers(1);
    return axes.has_value();
  }
  return true;
}

void infer_squeeze(NodeInference& n) {
  std::optional<std::vector<int64_t>> axes;
  const bool known = axes_known(n, axes);
  const auto from = n.shape(0);
  if (!known || !from) return n.set(0, n.element(0));
  std::vector<bool> dropped(from->size(), false);
  if (axes) {
    for (const int64_t a : *axes) {
      const size_t i = n.axis(a, from->size());
      n.unify((*from)[i], 1, fmt::format("size of squeezed axis {} and 1", i));
      dropped[i] = true;
    }
  } else {
    for (size_t i = 0; i < from->size(); ++i) {
      if (!(*from)[i].constant()) return n.set(0, n.element(0));
      dropped[i] = (*from)[i].is(1);
    }
  }
  Dims to;
  for (size_t i = 0; i < from->size(); ++i)
    if (!dropped[i]) to.push_back((*from)[i]);
  set_reshaped(n, std::move(to));
}

void infer_unsqueeze(NodeInference& n) {
  std::optional<std::vector<int64_t>> axes;
  const bool known = axes_known(n, axes);
  const auto from = n.shape(0);
  if (!known || !from) return n.set(0, n.element(0));
  if (!axes) n.fail("axes are missing");
  const size_t rank = from->size() + axes->size();
  std::vector<bool> added(rank, false);
  for (const int64_t a : *axes) {
    const size_t i = n.axis(a, rank);
    if (added[i]) n.fail(fmt::format("axis {} is given twice", i));
    added[i] = true;
  }
  Dims to;
  auto next = from->begin();
  for (size_t i = 0; i < rank; ++i) to.push_back(added[i] ? Dim(1) : *next++);
  set_reshaped(n, std::move(to));
}

}  // namespace

InferRules reshape_rules() {
  return {
      {"", "Reshape", 1, infer_reshape},
      {"", "Flatten", 1, infer_flatten},
      {"", "Squeeze", 1, infer_squeeze},
      {"", "Unsqueeze", 1, infer_unsqueeze},
  };
}

}  // namespace attune
