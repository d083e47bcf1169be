// Writes function bodies in standard operators, in forms that every opset from 13 on has.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace attune {

class BodyBuilder {
 public:
  BodyBuilder(Graph& graph, int64_t opset) : graph_(graph), opset_(opset) {}

  int64_t opset() const { return opset_; }
  Graph& graph() { return graph_; }

  // A node with one output; null inputs are left out.
  Value* op(std::string type, std::vector<Value*> inputs, Attributes attributes = {});
  Node* node(std::string type, std::vector<Value*> inputs, size_t outputs, Attributes attributes = {});

  Value* ints(std::vector<int64_t> values);    // int64, rank 1
  Value* integer(int64_t value);               // int64 scalar
  Value* number(double value, DataType type);  // scalar of a float type
  Value* tensor(Tensor value);

  Value* cast(Value* x, DataType to);
  Value* add(Value* a, Value* b) { return op("Add", {a, b}); }
  Value* sub(Value* a, Value* b) { return op("Sub", {a, b}); }
  Value* mul(Value* a, Value* b) { return op("Mul", {a, b}); }
  Value* div(Value* a, Value* b) { return op("Div", {a, b}); }
  Value* where(Value* condition, Value* a, Value* b) { return op("Where", {condition, a, b}); }
  Value* equal(Value* a, Value* b) { return op("Equal", {a, b}); }
  Value* both(Value* a, Value* b);  // And; the other if one is null
  Value* negate(Value* a) { return op("Not", {a}); }
  Value* matmul(Value* a, Value* b) { return op("MatMul", {a, b}); }
  Value* transpose(Value* x, std::vector<int64_t> perm);
  Value* unsqueeze(Value* x, std::vector<int64_t> axes) { return op("Unsqueeze", {x, ints(std::move(axes))}); }
  Value* concat(std::vector<Value*> values, int64_t axis);
  Value* reduce_sum(Value* x, int64_t axis);                       // keeps the axis
  Value* reduce_mean(Value* x, const std::vector<int64_t>& axes);  // keeps the axes
  Value* shape(Value* x) { return op("Shape", {x}); }
  Value* dim(Value* x, int64_t axis);  // int64 scalar
  Value* range(Value* count);          // 0 .. count-1
  Value* as_list(Value* scalar) { return unsqueeze(scalar, {0}); }

 private:
  Graph& graph_;
  int64_t opset_;
};

// The lowest finite number of a float type.
double lowest_of(DataType type);
// The type that a 16-bit type is computed in: float; double and float themselves.
DataType wide_type(DataType type);

}  // namespace attune
