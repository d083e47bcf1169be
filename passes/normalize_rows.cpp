// Products with one column, and axes of size 1, written as the attention rules expect them: a query is a row, and its
// scores lose that axis by Squeeze
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

Pat squeeze(const std::string& name, const Pat& x) { return Op("Squeeze", name).further_inputs()(x); }

// (B, M, K) (B, K, 1)  =  ((B, 1, K) (B, K, M))^T, as a row without and then with its axis of size 1
pattern::Rule column_product() {
  return {"normalize_column_product", Op("MatMul")(any("matrix"), any("column")),
          [](const Match& m, Builder& b) -> Outcome {
            const Dims *matrix = dims(m["matrix"], 3), *column = dims(m["column"], 3);
            if (!matrix || !column || !(*column)[2].is(1) || (*matrix)[1].is(1) || !((*matrix)[0] == (*column)[0]) ||
                m["column"]->constant())
              return m.refuse("column", "is not one column for each matrix of the batch");
            Value* row = b.unsqueeze(b.squeeze(m["column"], {2}), {1});
            Value* product = b.op("MatMul", {row, b.transpose(m["matrix"], {0, 2, 1})});
            return b.unsqueeze(b.squeeze(product, {1}), {2});
          }};
}

// A column transposed is a row: its axis of size 1 goes and comes elsewhere. And back, where that axis was just added.
pattern::Rule column_transpose() {
  return {"normalize_column_transpose", Op("Transpose", "transposed").attr("perm", {0, 2, 1})(any("x")),
          [](const Match& m, Builder& b) -> Outcome {
            const Dims* x = dims(m["x"]);
            const Node* n = m["x"]->producer();
            if (!x) return m.refuse("x", "its rank is not known");
            if ((*x)[2].is(1)) return b.unsqueeze(b.squeeze(m["x"], {2}), {1});
            const bool added = n && n->is("Unsqueeze") && axes_of(*n, m.inference()) == std::vector<int64_t>{1};
            if (!added) return m.refuse("x", "is no column, and no row that was made one");
            return b.unsqueeze(n->input(0), {2});
          }};
}

// Squeeze(Unsqueeze(x)) and Unsqueeze(Squeeze(x)) of the same axes are x; of one axis each, what is left of the two.
pattern::Rule squeeze_of_unsqueeze() {
  Pat inner = Op("Unsqueeze", "inner").further_inputs().shared()(any("x"));
  return {"normalize_squeeze", squeeze("outer", inner), [](const Match& m, Builder& b) -> Outcome {
            const auto added = axes_of(*m.node("inner"), m.inference()),
                       removed = axes_of(*m.node("outer"), m.inference());
            if (!added || !removed) return m.refuse("outer", "its axes are not known");
            if (*added == *removed) return m["x"];
            if (added->size() != 1 || removed->size() != 1)
              return m.refuse("outer", "does not take away the axis that was added");
            const int64_t a = (*added)[0], r = (*removed)[0];
            return b.unsqueeze(b.squeeze(m["x"], {r > a ? r - 1 : r}), {r < a ? a - 1 : a});
          }};
}

pattern::Rule unsqueeze_of_squeeze() {
  return {"normalize_squeeze",
          Op("Unsqueeze", "outer").further_inputs()(Op("Squeeze", "inner").further_inputs().shared()(any("x"))),
          [](const Match& m, Builder&) -> Outcome {
            const auto removed = axes_of(*m.node("inner"), m.inference()),
                       added = axes_of(*m.node("outer"), m.inference());
            if (!removed || removed != added) return m.refuse("outer", "does not add the axes that were taken away");
            return m["x"];
          }};
}

// A Reshape between (X, Y, 1) or (X, 1, Y) and (X, Y).
pattern::Rule reshape_of_one_axis() {
  return {"normalize_reshape", Op("Reshape", "reshaped")(any("x"), any()), [](const Match& m, Builder& b) -> Outcome {
            const Dims *from = dims(m["x"]), *to = dims(m["reshaped"]);
            if (!from || !to || from->size() + to->size() != 5 || std::min(from->size(), to->size()) != 2)
              return m.refuse("reshaped", "adds or drops no axis");
            const Dims &large = from->size() == 3 ? *from : *to, &small = from->size() == 3 ? *to : *from;
            for (size_t axis : {2, 1}) {
              Dims rest = large;
              rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(axis));
              if (!large[axis].is(1) || rest != small) continue;
              const std::vector<int64_t> axes{static_cast<int64_t>(axis)};
              return from->size() == 3 ? b.squeeze(m["x"], axes) : b.unsqueeze(m["x"], axes);
            }
            return m.refuse("reshaped", "adds or drops no axis of size 1");
          }};
}

// Gather(x, 0) over an axis of size 1
pattern::Rule gather_of_one() {
  return {"normalize_gather", Op("Gather", "gathered")(any("x"), pattern::scalar("index")),
          [](const Match& m, Builder& b) -> Outcome {
            const Dims* x = dims(m["x"]);
            if (!x || !is_float(m["x"]->element_type()))
              return m.refuse("x", "is not a tensor of numbers whose rank is known");
            const auto rank = static_cast<int64_t>(x->size());
            const int64_t axis = from_front(m.node("gathered")->attr_int("axis", 0), rank);
            if (!(*x)[static_cast<size_t>(axis)].is(1)) return m.refuse("x", "has several elements there");
            return b.squeeze(m["x"], {axis});
          }};
}

// A softmax over the last axis, in the place of `before`.
Value* softmax(Builder& b, Value* x, const Node& before) {
  Node* n = b.node("", "Softmax", {x}, 1, {{"axis", int64_t{-1}}});
  n->name = before.name;
  return n->output();
}

// Softmax over the rows of (X, Y, 1) is one over the last axis of (X, Y).
pattern::Rule column_softmax() {
  return {"normalize_softmax", Op("Softmax", "softmax")(any("x")), [](const Match& m, Builder& b) -> Outcome {
            const Dims* x = dims(m["x"], 3);
            const int64_t axis = m.node("softmax")->attr_int("axis", -1);
            if (!x || !(*x)[2].is(1) || (axis != 1 && axis != -2))
              return m.refuse("softmax", "is not over the rows of a column");
            return b.unsqueeze(softmax(b, b.squeeze(m["x"], {2}), *m.node("softmax")), {2});
          }};
}

// Softmax(Unsqueeze(x, 1))  =  Unsqueeze(Softmax(x), 1), over the last axis
pattern::Rule row_softmax() {
  Pat row = Op("Unsqueeze", "row").further_inputs().shared()(any("x"));
  return {"normalize_softmax", Op("Softmax", "softmax").axis(-1)(row), [](const Match& m, Builder& b) -> Outcome {
            const auto axes = axes_of(*m.node("row"), m.inference());
            if (!axes || *axes != std::vector<int64_t>{1} || m["x"]->tensor_type().rank() != 2)
              return m.refuse("row", "does not make rows of a matrix");
            return b.unsqueeze(softmax(b, m["x"], *m.node("softmax")), {1});
          }};
}

// Squeeze(f(x, y))  =  f(Squeeze(x), Squeeze(y)), where both have the axis
pattern::Rule squeeze_of_elementwise(const std::string& type, size_t operands) {
  Op f(type, "f");
  Pat x = any("0"), y = any("1"), z = any("2");
  Pat inner = operands == 1 ? std::move(f)(x) : operands == 2 ? std::move(f)(x, y) : std::move(f)(x, y, z);
  return {"normalize_squeeze", squeeze("squeezed", inner), [operands](const Match& m, Builder& b) -> Outcome {
            const Node& f = *m.node("f");
            const auto axes = axes_of(*m.node("squeezed"), m.inference());
            const int rank = f.output()->tensor_type().rank();
            if (!axes) return m.refuse("squeezed", "its axes are not known");
            std::vector<Value*> inputs;
            for (size_t i = 0; i < operands; ++i) {
              Value* v = f.input(i);
              const bool same = v->tensor_type().rank() == rank;
              if (!same && !m.inference().scalar(v))
                return m.refuse("f", "an operand doesn't have the axis that is taken away");
              inputs.push_back(same ? b.squeeze(v, *axes) : v);
            }
            return b.op(f.type(), std::move(inputs), f.attributes());
          }};
}

}  // namespace

namespace rules {

std::vector<pattern::Rule> row_forms() {
  std::vector<pattern::Rule> list = {column_product(),       column_transpose(),    squeeze_of_unsqueeze(),
                                     unsqueeze_of_squeeze(), reshape_of_one_axis(), gather_of_one(),
                                     column_softmax(),       row_softmax(),         squeeze_of_elementwise("Where", 3)};
  for (const char* type : {"Add", "Sub", "Mul", "Div"}) list.push_back(squeeze_of_elementwise(type, 2));
  for (const char* type : {"Cast", "Not"}) list.push_back(squeeze_of_elementwise(type, 1));
  return list;
}

}  // namespace rules
}  // namespace attune
