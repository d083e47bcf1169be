// Operators that combine elements along axes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ops/infer/contents.h"
#include "ops/infer/node_inference.h"

namespace attune {
namespace {

struct Reduction {
  double (*real)(double, double) = nullptr;
  Dim (*integer)(const Dim&, const Dim&) = nullptr;
};

// Which axes are reduced; nothing if that isn't known. Axes are an attribute or, in newer opsets, input 1.
std::optional<std::vector<bool>> reduced_axes(NodeInference& n, size_t rank) {
  std::vector<int64_t> axes = n.node().attr_ints("axes");
  if (n.has(1)) {
    const auto given = n.constant_integers(1);
    if (!given) return std::nullopt;
    axes = *given;
  }
  if (axes.empty()) return std::vector<bool>(rank, n.node().attr_int("noop_with_empty_axes", 0) == 0);
  std::vector<bool> out(rank, false);
  for (const int64_t a : axes) out[n.axis(a, rank)] = true;
  return out;
}

Dims drop_axes(const Dims& from, const std::vector<bool>& reduced, bool keep) {
  Dims out;
  for (size_t i = 0; i < from.size(); ++i) {
    if (!reduced[i]) out.push_back(from[i]);
    if (reduced[i] && keep) out.push_back(1);
  }
  return out;
}

void reduce_contents(NodeInference& n, const Reduction& by, const Dims& shape, const std::vector<bool>& reduced) {
  const SymbolicTensor* x = n.contents(0);
  if (!x || (x->is_integer() ? !by.integer : !by.real)) return;
  std::vector<int64_t> kept = x->shape;
  for (size_t i = 0; i < kept.size(); ++i)
    if (reduced[i]) kept[i] = 1;
  auto out = unknown_contents(x->type, shape);
  if (!out || x->size() == 0) return;
  // An element of the input falls into the element of the output that broadcasts to it.
  const auto into = broadcast_indices(kept, x->shape);
  std::vector<bool> started(out->size(), false);
  for (size_t i = 0; i < into.size(); ++i) {
    const size_t to = into[i];
    if (x->is_integer()) {
      out->integers[to] = fit_to(x->type, started[to] ? by.integer(out->integers[to], x->integers[i]) : x->integers[i]);
    } else if (!started[to]) {
      out->reals[to] = x->reals[i];
    } else {
      const auto &a = out->reals[to], &b = x->reals[i];
      out->reals[to] = a && b ? std::optional(round_to(x->type, by.real(*a, *b))) : std::nullopt;
    }
    started[to] = true;
  }
  n.set_contents(0, std::move(*out));
}

std::function<void(NodeInference&)> reduction(Reduction by = {}) {
  return [=](NodeInference& n) {
    const auto from = n.shape(0);
    const bool keep = n.node().attr_int("keepdims", 1) != 0;
    const auto reduced = from ? reduced_axes(n, from->size()) : std::nullopt;
    if (!reduced) return n.set(0, n.element(0), from && keep ? std::optional(Dims(from->size())) : std::nullopt);
    const Dims to = drop_axes(*from, *reduced, keep);
    n.set(0, n.element(0), to);
    reduce_contents(n, by, to, *reduced);
  };
}

void infer_arg(NodeInference& n) {
  const auto from = n.shape(0);
  if (!from) return n.set(0, DataType::kInt64);
  std::vector<bool> reduced(from->size(), false);
  reduced[n.axis(n.node().attr_int("axis", 0), from->size())] = true;
  n.set(0, DataType::kInt64, drop_axes(*from, reduced, n.node().attr_int("keepdims", 1) != 0));
}

void infer_top_k(NodeInference& n) {
  auto shape = n.shape(0);
  if (shape) {
    const auto k = n.has(1) ? n.elements(1) : std::nullopt;
    Dim& size = (*shape)[n.axis(n.node().attr_int("axis", -1), shape->size())];
    size = n.node().has("k") ? Dim(n.node().attr_int("k", 0)) : k && k->integers.size() == 1 ? k->integers[0] : Dim();
  }
  n.set(0, n.element(0), shape);
  n.set(1, DataType::kInt64, std::move(shape));
}

void infer_non_zero(NodeInference& n) {
  n.set(0, DataType::kInt64, Dims{n.shape(0) ? Dim(static_cast<int64_t>(n.shape(0)->size())) : Dim(), Dim()});
}

}  // namespace

InferRules reduction_rules() {
  const Reduction sum{[](double a, double b) { return a + b; }, [](const Dim& a, const Dim& b) { return a + b; }};
  const Reduction product{[](double a, double b) { return a * b; }, [](const Dim& a, const Dim& b) { return a * b; }};
  const Reduction maximum{[](double a, double b) { return std::max(a, b); }, Dim::maximum};
  const Reduction minimum{[](double a, double b) { return std::min(a, b); }, Dim::minimum};
  InferRules rules{
      {"", "ReduceSum", 1, reduction(sum)},
      {"", "ReduceProd", 1, reduction(product)},
      {"", "ReduceMax", 1, reduction(maximum)},
      {"", "ReduceMin", 1, reduction(minimum)},
      {"", "ArgMax", 1, infer_arg},
      {"", "ArgMin", 1, infer_arg},
      {"", "TopK", 1, infer_top_k},
      {"", "NonZero", 1, infer_non_zero},
  };
  for (const char* type : {"ReduceMean", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"})
    rules.push_back({"", type, 1, reduction()});
  return rules;
}

}  // namespace attune
