#include "passes/attention_streams.h"

#include <algorithm>
#include <numeric>

#include "passes/node_facts.h"

namespace attune {
namespace {

using pattern::Builder;

constexpr int64_t kStreamAxis = 1;

int64_t axis_of(const Node& concat, int rank) { return from_front(concat.attr_int("axis", 0), rank); }

// N values, each without the axis of streams, and the order of axes that their stack still has to get.
struct Stacked {
  std::vector<Value*> parts;
  std::vector<int64_t> perm;
};

std::optional<Stacked> unstack(Value* x, int64_t axis, const Inference& inference) {
  const Node* n = x->producer();
  const int rank = x->tensor_type().rank();
  if (!n) return std::nullopt;
  if (n->is("Transpose")) {
    const std::vector<int64_t> perm = n->attr_ints("perm");
    if (static_cast<int>(perm.size()) != rank || perm[0] != 0) return std::nullopt;
    const int64_t before = perm[static_cast<size_t>(axis)];
    auto stacked = unstack(n->input(0), before, inference);
    if (!stacked) return std::nullopt;
    std::vector<int64_t> both;
    for (const int64_t p : perm)
      if (p != before) both.push_back(stacked->perm[static_cast<size_t>(p > before ? p - 1 : p)]);
    stacked->perm = std::move(both);
    return stacked;
  }
  if (!n->is("Concat") || axis_of(*n, rank) != axis) return std::nullopt;
  Stacked stacked;
  for (const Value* part : n->inputs()) {
    const Node* added = part->producer();
    if (!added || !added->is("Unsqueeze") || !added->input(0)->tensor_type().has_rank()) return std::nullopt;
    if (axes_of(*added, inference) != std::vector<int64_t>{axis}) return std::nullopt;
    stacked.parts.push_back(added->input(0));
  }
  stacked.perm.resize(static_cast<size_t>(rank) - 1);
  std::iota(stacked.perm.begin(), stacked.perm.end(), int64_t{0});
  return stacked;
}

Value* fold(Builder& b, Value* x) {
  const Dims& dims = *x->tensor_type().shape;
  const auto rank = static_cast<int64_t>(dims.size());
  std::vector<int64_t> target{-1};
  for (size_t i = 2; i < dims.size(); ++i)
    if (const auto size = dims[i].constant(); size && *size > 0) target.push_back(*size);
  if (target.size() + 1 == dims.size()) return b.reshape(x, target);
  const auto sizes = [&](int64_t from, int64_t to) {
    return b.op("Slice", {b.op("Shape", {x}), b.integers({from}), b.integers({to})});
  };
  // Not -1, which says nothing where some other size is 0.
  Value* batch = b.op("Mul", {sizes(0, 1), sizes(1, 2)});
  return reshape_to_sizes(b, x, b.op("Concat", {batch, sizes(2, rank)}, {{"axis", int64_t{0}}}));
}

bool have_one_shape(const std::vector<Value*>& values) {
  const auto& shape = values[0]->tensor_type().shape;
  return shape &&
         std::all_of(values.begin(), values.end(), [&](const Value* v) { return v->tensor_type().shape == shape; });
}

class Stacker {
 public:
  explicit Stacker(Builder& b) : b_(b) {}

  // The values, each (B, ...), as (B N, ...), where those of one sentence follow each other.
  Value* stack(const std::vector<Value*>& parts) {
    if (std::all_of(parts.begin(), parts.end(), [&](const Value* v) { return v == parts[0]; })) return copies(parts);
    if (Value* lifted = lift(parts)) return lifted;
    std::vector<Value*> rows;
    for (Value* part : parts) rows.push_back(b_.unsqueeze(part, {kStreamAxis}));
    return fold(b_, b_.op("Concat", std::move(rows), {{"axis", kStreamAxis}}));
  }

 private:
  Value* copies(const std::vector<Value*>& parts) {
    std::vector<int64_t> target(static_cast<size_t>(parts[0]->tensor_type().rank()) + 1, 1);
    target[kStreamAxis] = static_cast<int64_t>(parts.size());
    return fold(b_, b_.op("Expand", {b_.unsqueeze(parts[0], {kStreamAxis}), b_.integers(target)}));
  }

  // The operation that made all parts, which have one rank, on the stack of what it was done to; null if there is none.
  Value* lift(const std::vector<Value*>& parts) {
    const Node* first = parts[0]->producer();
    for (const Value* v : parts) {
      const Node* n = v->producer();
      if (!n || !n->is(first->type()) || v->uses().size() != 1 || v->is_graph_output() ||
          n->inputs().size() != first->inputs().size())
        return nullptr;
    }
    if (first->is("Transpose")) return lift_transpose(parts);
    if (first->is("Reshape")) return lift_reshape(parts);
    if (first->is("Concat")) return lift_concat(parts);
    if (first->is("MatMul") && first->input(1)->tensor_type().rank() == 2) return lift_operand(parts, 0);
    if (first->is("Add") || first->is("Mul") || first->is("Div"))
      for (const size_t operand : {size_t{0}, size_t{1}})
        if (first->input(1 - operand)->tensor_type().rank() >= 0 &&
            first->input(1 - operand)->tensor_type().rank() <= 1)
          return lift_operand(parts, operand);
    return nullptr;
  }

  std::vector<Value*> inputs(const std::vector<Value*>& parts, size_t i) const {
    std::vector<Value*> list;
    for (const Value* v : parts) list.push_back(v->producer()->input(i));
    return list;
  }

  Value* lift_transpose(const std::vector<Value*>& parts) {
    const std::vector<int64_t> perm = parts[0]->producer()->attr_ints("perm");
    if (static_cast<int>(perm.size()) != parts[0]->tensor_type().rank() || perm[0] != 0) return nullptr;
    for (const Value* v : parts)
      if (v->producer()->attr_ints("perm") != perm || !v->producer()->input(0)->tensor_type().has_rank())
        return nullptr;
    return b_.transpose(stack(inputs(parts, 0)), perm);
  }

  // Of a Reshape that splits the last axis.
  Value* lift_reshape(const std::vector<Value*>& parts) {
    const std::vector<Value*> states = inputs(parts, 0);
    if (!have_one_shape(states)) return nullptr;
    const Dims &from = *states[0]->tensor_type().shape, &to = *parts[0]->tensor_type().shape;
    if (from.size() < 2) return nullptr;  // the batch is split, too
    Dims whole = to;
    while (whole.size() > from.size()) {
      whole[whole.size() - 2] = whole[whole.size() - 2] * whole.back();
      whole.pop_back();
    }
    if (whole != from) return nullptr;
    std::vector<int64_t> target(from.size() - 1, 0);
    for (size_t i = target.size(); i < to.size(); ++i) {
      if (!to[i].constant()) return nullptr;
      target.push_back(*to[i].constant());
    }
    return b_.reshape(stack(states), target);
  }

  Value* lift_concat(const std::vector<Value*>& parts) {
    const int rank = parts[0]->tensor_type().rank();
    const int64_t axis = axis_of(*parts[0]->producer(), rank);
    for (const Value* v : parts)
      if (axis_of(*v->producer(), rank) != axis) return nullptr;
    // The operands of one place have to be of one shape.
    std::vector<std::vector<Value*>> places;
    for (size_t i = 0; i < parts[0]->producer()->inputs().size(); ++i) {
      places.push_back(inputs(parts, i));
      if (!have_one_shape(places.back())) return nullptr;
    }
    std::vector<Value*> stacks;
    for (const auto& place : places) stacks.push_back(stack(place));
    return b_.op("Concat", std::move(stacks), {{"axis", axis}});
  }

  // Of an operation whose operands but one are the same for all parts.
  Value* lift_operand(const std::vector<Value*>& parts, size_t operand) {
    const Node& first = *parts[0]->producer();
    const std::vector<Value*> states = inputs(parts, operand);
    for (const Value* v : parts)
      if (v->producer()->input(1 - operand) != first.input(1 - operand)) return nullptr;
    if (!have_one_shape(states)) return nullptr;
    std::vector<Value*> operands(2, first.input(1 - operand));
    operands[operand] = stack(states);
    return b_.op(first.type(), std::move(operands));
  }

  Builder& b_;
};

}  // namespace

Value* reshape_to_sizes(Builder& b, Value* x, Value* sizes) {
  constexpr int64_t kAllowsZero = 14;  // Reshape, from this opset on
  if (b.opset() < kAllowsZero) return b.op("Reshape", {x, sizes});
  return b.op("Reshape", {x, sizes}, {{"allowzero", int64_t{1}}});
}

Value* fold_streams(Builder& b, Value* x) {
  const auto stacked = unstack(x, kStreamAxis, b.inference());
  if (!stacked) return fold(b, x);
  Value* folded = Stacker(b).stack(stacked->parts);
  return std::is_sorted(stacked->perm.begin(), stacked->perm.end()) ? folded : b.transpose(folded, stacked->perm);
}

}  // namespace attune
