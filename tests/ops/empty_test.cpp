// Dimensions of size zero: what a result's shape is, and that sums over nothing are the neutral element.
#include <gtest/gtest.h>

#include "tests/ops/node_runner.h"

namespace attune::testing {
namespace {

Tensor floats(const Shape& shape) { return random_tensor(shape, 1); }
Tensor ints(const std::vector<int64_t>& values) {
  return Tensor::from<int64_t>({static_cast<int64_t>(values.size())}, values);
}

struct Case {
  std::string type;
  Attributes attributes;
  std::vector<Tensor> inputs;
  Shape shape;                      // of the first output
  std::vector<double> values = {};  // where it has elements
};

std::vector<Case> cases() {
  const Attributes first{{"axis", int64_t{0}}}, second{{"axis", int64_t{1}}}, drop{{"keepdims", int64_t{0}}};
  const Attributes hidden{{"hidden_size", int64_t{4}}}, training{{"training_mode", int64_t{1}}};
  const Tensor none = floats({0});
  return {
      {"Exp", {}, {floats({0, 3})}, {0, 3}},
      {"Add", {}, {floats({0, 3}), floats({3})}, {0, 3}},
      {"Mul", {}, {floats({2, 0}), floats({1, 1})}, {2, 0}},
      {"Less", {}, {floats({0}), floats({1})}, {0}},
      {"Where", {}, {Tensor::allocate(DataType::kBool, {0, 1}), floats({3}), floats({})}, {0, 3}},
      {"Softmax", second, {floats({0, 3, 4})}, {0, 3, 4}},
      {"Softmax", first, {floats({2, 0})}, {2, 0}},
      {"LayerNormalization", {}, {floats({0, 3, 4}), floats({4})}, {0, 3, 4}},
      {"LayerNormalization", second, {floats({2, 0, 4}), floats({4})}, {2, 0, 4}},
      {"BatchNormalization", training, {floats({2, 0, 3}), none, none, none, none}, {2, 0, 3}},
      {"ReduceSum", drop, {floats({2, 0}), ints({1})}, {2}, {0, 0}},
      {"ReduceProd", drop, {floats({2, 0}), ints({1})}, {2}, {1, 1}},
      {"ReduceMean", drop, {floats({0, 3}), ints({1})}, {0}},
      {"MatMul", {}, {floats({0, 3}), floats({3, 4})}, {0, 4}},
      {"MatMul", {}, {floats({2, 0}), floats({0, 2})}, {2, 2}, {0, 0, 0, 0}},
      {"MatMul", {}, {floats({2, 3}), floats({3, 0})}, {2, 0}},
      {"MatMul", {}, {floats({0, 2, 3}), floats({0, 3, 4})}, {0, 2, 4}},
      {"Gemm", {}, {floats({2, 0}), floats({0, 1}), Tensor::from<float>({1}, {5})}, {2, 1}, {5, 5}},
      {"Einsum", {{"equation", std::string("ij,jk->ik")}}, {floats({1, 0}), floats({0, 2})}, {1, 2}, {0, 0}},
      {"MatMulInteger",
       {},
       {random_integers<uint8_t>({1, 0}, 1, 0, 9), random_integers<int8_t>({0, 2}, 2, 0, 9)},
       {1, 2},
       {0, 0}},
      {"Concat", second, {floats({2, 0}), Tensor::from<float>({2, 1}, {7, 8})}, {2, 1}, {7, 8}},
      {"Transpose", {}, {floats({0, 3})}, {3, 0}},
      {"Reshape", {}, {floats({0, 4}), ints({-1, 2, 2})}, {0, 2, 2}},
      {"Reshape", {{"allowzero", int64_t{1}}}, {floats({0, 3}), ints({3, 0})}, {3, 0}},
      {"Flatten", second, {floats({0, 3, 2})}, {0, 6}},
      {"Slice", {}, {floats({4, 3}), ints({4}), ints({9}), ints({0})}, {0, 3}},
      {"Gather", {}, {floats({4, 3}), ints({})}, {0, 3}},
      {"Gather", {}, {floats({4, 0}), ints({1, 2})}, {2, 0}},
      {"GatherND", {}, {floats({4, 3}), Tensor::allocate(DataType::kInt64, {0, 1})}, {0, 3}},
      {"ScatterND",
       {},
       {Tensor::from<float>({1}, {3}), Tensor::allocate(DataType::kInt64, {0, 1}), floats({0})},
       {1},
       {3}},
      {"Expand", {}, {floats({1, 3}), ints({0, 3})}, {0, 3}},
      {"Tile", {}, {floats({2, 3}), ints({0, 2})}, {0, 6}},
      {"Pad", {}, {floats({0, 1}), ints({1, 0, 1, 0})}, {2, 1}, {0, 0}},
      {"CumSum", {}, {floats({2, 0}), Tensor::scalar<int64_t>(1)}, {2, 0}},
      {"TopK", {}, {floats({2, 3}), ints({0})}, {2, 0}},
      {"NonZero", {}, {floats({0, 3})}, {2, 0}},
      {"ArgMax", {{"axis", int64_t{1}}, {"keepdims", int64_t{0}}}, {floats({0, 3})}, {0}},
      {"Conv", {}, {floats({0, 3, 8}), floats({4, 3, 3})}, {0, 4, 6}},
      {"MaxPool", {{"kernel_shape", std::vector<int64_t>{2}}}, {floats({0, 3, 8})}, {0, 3, 7}},
      {"Resize", {}, {floats({0, 3}), Tensor(), Tensor(), ints({0, 6})}, {0, 6}},
      {"Resize", {}, {floats({0, 3}), Tensor(), Tensor::from<float>({2}, {1, 2})}, {0, 6}},
      {"QuantizeLinear", {}, {floats({0, 3}), Tensor::scalar(0.5F)}, {0, 3}},
      {"LSTM", hidden, {floats({3, 0, 2}), floats({1, 16, 2}), floats({1, 16, 4})}, {3, 1, 0, 4}},
      {"LSTM", {}, {floats({3, 2, 2}), floats({1, 0, 2}), floats({1, 0, 0})}, {3, 1, 2, 0}},
      {"GRU", hidden, {floats({0, 2, 2}), floats({1, 12, 2}), floats({1, 12, 4})}, {0, 1, 2, 4}},
      {"ConstantOfShape", {}, {ints({0, 3})}, {0, 3}},
      {"Shape", {}, {floats({0, 3})}, {2}, {0, 3}},
  };
}

// As inputs of a run, and with all but the first as constants of the model (weights are packed then).
TEST(EmptyTensors, EveryFamilyOfOperators) {
  for (const Case& c : cases())
    for (const size_t first_constant : {~size_t{0}, size_t{1}}) {
      SCOPED_TRACE(c.type + " of " + c.inputs[0].shape().to_string());
      const size_t outputs = c.type == "TopK" ? 2 : 1;
      const auto results = run_node({.type = c.type,
                                     .attributes = c.attributes,
                                     .opset = 20,
                                     .outputs = outputs,
                                     .first_constant = first_constant},
                                    c.inputs);
      const Tensor& y = results.at(0).tensor();
      EXPECT_EQ(y.shape(), c.shape) << y.shape().to_string();
      if (y.count() > 0) {
        EXPECT_EQ(y.to_double(), c.values);
      }
    }
}

}  // namespace
}  // namespace attune::testing
