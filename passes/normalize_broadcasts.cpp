// Copies along an axis that broadcasting makes needless:  f(copies(x), y) = f(x, y), and
// concat(copies(x), y) W  =  x W_1 + y W_2
#include <algorithm>

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

// Whether Expand or Tile only copies along axes of size 1.
bool copies_ones(const Node& n) {
  const Dims *from = dims(n.input(0)), *to = dims(n.output());
  if (!from || !to) return false;
  const size_t added = to->size() - from->size();
  for (size_t i = 0; i < from->size(); ++i)
    if (!(*from)[i].is(1) && !((*from)[i] == (*to)[added + i])) return false;
  return true;
}

bool is_copy(const Node& n) { return (n.is("Expand") || n.is("Tile")) && copies_ones(n); }

bool is_weight(const Value* v) { return v->constant() && v->tensor_type().rank() <= 2; }

constexpr int kMaxSteps = 6;

Value* rows_before_copies(Builder& b, Value* v, int steps = 0);

// `v` before its copies were made, of the same rank with axes of size 1; null if it holds no copies. Followed through
// transposes, Unsqueeze and linear layers over the last axis, which are computed for one copy then.
Value* before_copies(Builder& b, Value* v, int steps = 0) {
  const Node* n = v->producer();
  if (!n || steps > kMaxSteps) return nullptr;
  if (is_copy(*n)) {
    const auto added = v->tensor_type().rank() - n->input(0)->tensor_type().rank();
    std::vector<int64_t> axes;
    for (int axis = 0; axis < added; ++axis) axes.push_back(axis);
    return axes.empty() ? n->input(0) : b.unsqueeze(n->input(0), axes);
  }
  if (v->uses().size() > 1) return nullptr;
  if (n->is("Transpose") || n->is("Unsqueeze")) {
    Value* x = before_copies(b, n->input(0), steps + 1);
    if (!x) return nullptr;
    std::vector<Value*> inputs{n->inputs().begin(), n->inputs().end()};
    inputs[0] = x;
    return b.op(n->type(), std::move(inputs), n->attributes());
  }
  const bool linear = n->is("MatMul") || n->is("Add");
  if (!linear) return nullptr;
  const size_t weight = is_weight(n->input(1)) ? 1 : 0;
  if (n->is("MatMul") && weight == 0) return nullptr;
  Value* whole = n->input(1 - weight);
  Value* x = n->is("MatMul") ? rows_before_copies(b, whole, steps + 1) : before_copies(b, whole, steps + 1);
  return x ? b.op(n->type(), {x, n->input(weight)}) : nullptr;
}

// As before, where the copies are whole rows.
Value* rows_before_copies(Builder& b, Value* v, int steps) {
  Value* x = before_copies(b, v, steps);
  return x && x->tensor_type().dim(-1) == v->tensor_type().dim(-1) ? x : nullptr;
}

// Whether `y` alone has the shape of `result`.
bool has_shape_of(const Value* y, const Value* result) {
  return dims(y) && y->tensor_type().shape == result->tensor_type().shape;
}

// Whether `x` and `y` are broadcast to the shape of `result`.
bool are_broadcast_to(const Value* x, const Value* y, const Value* result) {
  if (!dims(result)) return false;
  for (int axis = -1; axis >= -result->tensor_type().rank(); --axis) {
    const Dim size = result->tensor_type().dim(axis);
    if (!(x->tensor_type().dim(axis) == size) && !(y->tensor_type().dim(axis) == size)) return false;
  }
  return true;
}

pattern::Rule needless_copy(const std::string& type) {
  return {"normalize_copies", Op(type, "f")(any("left"), any("right")), [](const Match& m, Builder& b) -> Outcome {
            const Node& f = *m.node("f");
            for (const size_t i : {0, 1}) {
              Value* other = f.input(1 - i);
              const Node* copy = f.input(i)->producer();
              const bool needless = copy && is_copy(*copy) && are_broadcast_to(copy->input(0), other, f.output());
              if (!needless && !has_shape_of(other, f.output())) continue;
              Value* x = before_copies(b, f.input(i));
              if (!x) continue;
              return b.op(f.type(), {i == 0 ? x : other, i == 0 ? other : x});
            }
            return m.refuse("f", "no operand holds copies that broadcasting makes");
          }};
}

// Rows [begin, end) of a constant matrix.
Tensor rows(const Tensor& matrix, int64_t begin, int64_t end) {
  const Tensor dense = matrix.to_contiguous();
  Tensor part = Tensor::allocate(dense.type(), {end - begin, dense.dim(1)});
  const size_t row = storage_bytes(dense.type(), static_cast<size_t>(dense.dim(1)));
  std::copy_n(dense.raw() + static_cast<size_t>(begin) * row, part.bytes(), part.mutable_raw());
  return part;
}

// The states of a query beside each position of the memory, projected together (Bahdanau's alignment model).
pattern::Rule concatenated() {
  Pat product = Op("MatMul")(Op("Concat", "both").axis(-1)(any("left"), any("right")), any("weight"));
  return {"normalize_concatenation", product, [](const Match& m, Builder& b) -> Outcome {
            const Value* weight = m["weight"];
            const auto width = m["left"]->tensor_type().dim(-1).constant();
            if (!weight->constant() || weight->tensor_type().rank() != 2 || weight->uses().size() > 1 || !width ||
                *width > weight->constant()->dim(0))
              return m.refuse("weight", "is not a constant matrix of its own");
            Value *left = m["left"], *right = m["right"];
            Value* of_left = rows_before_copies(b, left);
            Value* of_right = of_left ? nullptr : rows_before_copies(b, right);
            if (!of_left && !of_right) return m.refuse("both", "neither part holds copies of rows");
            const Tensor& w = *weight->constant();
            Value* first = b.op("MatMul", {of_left ? of_left : left, b.constant(rows(w, 0, *width))});
            Value* second = b.op("MatMul", {of_right ? of_right : right, b.constant(rows(w, *width, w.dim(0)))});
            return b.op("Add", {first, second});
          }};
}

bool is_bias(const Value* v) { return is_weight(v) || dims(v)->size() <= 1; }

// (query + keys) + bias  =  query + (keys + bias)
pattern::Rule bias_of_sum() {
  return {"normalize_bias", Op("Add")(Op("Add", "sum")(any("left"), any("right")), any("bias")),
          [](const Match& m, Builder& b) -> Outcome {
            const Dims *left = dims(m["left"]), *right = dims(m["right"]), *bias = dims(m["bias"]);
            if (!bias || bias->size() > 1) return m.refuse("bias", "is not a vector");
            if (!left || !right || is_bias(m["left"]) || is_bias(m["right"]) || (*left == *right))
              return m.refuse("sum", "is not one of a row and a matrix");
            if (has_shape_of(m["right"], m["sum"]))
              return b.op("Add", {m["left"], b.op("Add", {m["right"], m["bias"]})});
            if (has_shape_of(m["left"], m["sum"]))
              return b.op("Add", {b.op("Add", {m["left"], m["bias"]}), m["right"]});
            return m.refuse("sum", "is larger than both its operands");
          }};
}

// (copies of one row v) x^T  =  (x v^T)^T
pattern::Rule constant_row_product() {
  return {"normalize_constant_row", Op("MatMul")(any("row"), Op("Transpose").attr("perm", {0, 2, 1})(any("x"))),
          [](const Match& m, Builder& b) -> Outcome {
            Value* row = rows_before_copies(b, m["row"]);
            const auto width = m["row"]->tensor_type().dim(-1).constant();
            const Dims* x = dims(m["x"]);
            if (!row || !width || row->tensor_type().shape != Dims{1, 1, *width})
              return m.refuse("row", "is not one row for all of the batch");
            if (!x || m.root()->tensor_type().shape != Dims{(*x)[0], 1, (*x)[1]})
              return m.refuse("row", "is copied to several, or to a larger batch");
            Value* column = b.op("MatMul", {m["x"], b.reshape(row, {*width, 1})});
            return b.unsqueeze(b.squeeze(column, {2}), {1});
          }};
}

}  // namespace

namespace rules {

std::vector<pattern::Rule> broadcast_forms() {
  std::vector<pattern::Rule> list = {concatenated(), bias_of_sum(), constant_row_product()};
  for (const char* type : {"Add", "Sub", "Mul", "Div"}) list.push_back(needless_copy(type));
  return list;
}

}  // namespace rules
}  // namespace attune
