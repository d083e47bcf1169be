#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/support/linear.h"
#include "tests/ops/node_runner.h"

namespace attune::testing {
namespace {

// Every element on its own, in double, by index arithmetic over the broadcast shape.
std::vector<double> reference(const Tensor& a, const Tensor& b, const Shape& batch) {
  const std::vector<double> x = a.to_double(), w = b.to_double();
  const int64_t m = a.dim(a.rank() - 2), k = a.shape().back(), n = b.shape().back();
  std::vector<double> y;
  for (int64_t flat = 0; flat < batch.count(); ++flat) {
    const auto matrix = [&](const Shape& s) {
      int64_t rest = flat, offset = 0, step = 1;
      for (size_t i = 0; i < batch.rank(); ++i) {
        const int64_t at = rest % batch[batch.rank() - 1 - i];
        rest /= batch[batch.rank() - 1 - i];
        if (i + 2 >= s.rank()) continue;
        const int64_t size = s[s.rank() - 3 - i];
        offset += size == 1 ? 0 : at * step;
        step *= size;
      }
      return offset;
    };
    const int64_t ax = matrix(a.shape()) * m * k, bx = matrix(b.shape()) * k * n;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t p = 0; p < k; ++p)
          sum += x[static_cast<size_t>(ax + i * k + p)] * w[static_cast<size_t>(bx + p * n + j)];
        y.push_back(sum);
      }
  }
  return y;
}

struct Row {
  Shape a, b, batch;
};

class MatMulShapes : public ::testing::TestWithParam<Row> {};

TEST_P(MatMulShapes, FloatAgreesWithTheDefinition) {
  const auto& [sa, sb, batch] = GetParam();
  const Tensor a = random_tensor(sa, 1), b = random_tensor(sb, 2);
  const auto want = reference(a, b, batch);
  for (const size_t constant : {size_t{1}, ~size_t{0}}) {
    const auto y = run_node({.type = "MatMul", .first_constant = constant}, {a, b});
    EXPECT_LT(largest_error(y[0].tensor(), want), 1e-5);
  }
}

TEST_P(MatMulShapes, IntegersWrap) {
  const auto& [sa, sb, batch] = GetParam();
  const Tensor a = random_integers<int32_t>(sa, 1, -1000, 1000), b = random_integers<int32_t>(sb, 2, -1000, 1000);
  EXPECT_EQ(run_node({.type = "MatMul"}, {a, b})[0].tensor().to_double(), reference(a, b, batch));
}

INSTANTIATE_TEST_SUITE_P(Rows, MatMulShapes,
                         ::testing::Values(Row{{3, 4}, {4, 5}, {}}, Row{{1, 64}, {64, 130}, {}},
                                           Row{{9, 33}, {33, 17}, {}}, Row{{2, 3, 40, 64}, {2, 3, 64, 50}, {2, 3}},
                                           Row{{2, 3, 40, 64}, {64, 50}, {2, 3}},
                                           Row{{2, 1, 40, 32}, {1, 3, 32, 40}, {2, 3}}, Row{{5, 1, 7}, {5, 7, 3}, {5}},
                                           Row{{40, 60}, {4, 60, 20}, {4}}, Row{{70, 1}, {1, 70}, {}},
                                           Row{{2, 6, 1, 8}, {2, 6, 8, 100}, {2, 6}}, Row{{0, 4}, {4, 5}, {}},
                                           Row{{3, 0}, {0, 5}, {}}));

TEST(MatMul, VectorsLoseTheirAxis) {
  const Tensor a = random_tensor({2, 3, 4}, 1), v = random_tensor({4}, 2);
  EXPECT_EQ(run_node({.type = "MatMul"}, {a, v})[0].tensor().shape(), (Shape{2, 3}));
  EXPECT_EQ(run_node({.type = "MatMul"}, {v, random_tensor({2, 4, 3}, 3)})[0].tensor().shape(), (Shape{2, 3}));
  EXPECT_EQ(run_node({.type = "MatMul"}, {v, v})[0].tensor().shape(), Shape{});
}

TEST(MatMul, SaysWhichSizesDiffer) {
  try {
    run_node({.type = "MatMul"}, {random_tensor({2, 3}, 1), random_tensor({4, 5}, 2)});
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("(2,3) times (4,5)"));
  }
}

TEST(MatMul, HalfPrecisionIsComputedInFloat) {
  Tensor a = Tensor::allocate(DataType::kFloat16, {2, 100}), b = Tensor::allocate(DataType::kFloat16, {100, 3});
  for (int64_t i = 0; i < a.count(); ++i) a.mutable_data<Float16>()[i] = Float16(static_cast<float>(i % 7) * 0.25F);
  for (int64_t i = 0; i < b.count(); ++i) b.mutable_data<Float16>()[i] = Float16(static_cast<float>(i % 5) * 0.5F);
  for (const size_t constant : {size_t{1}, ~size_t{0}}) {
    const auto y = run_node({.type = "MatMul", .first_constant = constant}, {a, b});
    EXPECT_EQ(y[0].tensor().type(), DataType::kFloat16);
    EXPECT_LT(largest_error(y[0].tensor(), reference(a, b, {})), 1e-3);
  }
}

TEST(FusedMatMul, TransposesAndScales) {
  const Tensor a = random_tensor({2, 20, 30}, 1), b = random_tensor({2, 40, 20}, 2);
  Tensor at = Tensor::allocate(DataType::kFloat, {2, 30, 20}), bt = Tensor::allocate(DataType::kFloat, {2, 20, 40});
  for (int64_t n = 0; n < 2; ++n) {
    for (int64_t i = 0; i < 20; ++i)
      for (int64_t j = 0; j < 30; ++j)
        at.mutable_data<float>()[(n * 30 + j) * 20 + i] = 2 * a.data<float>()[(n * 20 + i) * 30 + j];
    for (int64_t i = 0; i < 40; ++i)
      for (int64_t j = 0; j < 20; ++j)
        bt.mutable_data<float>()[(n * 20 + j) * 40 + i] = b.data<float>()[(n * 40 + i) * 20 + j];
  }
  const auto y = run_node({.type = "FusedMatMul",
                           .domain = "com.microsoft",
                           .attributes = {{"transA", int64_t{1}}, {"transB", int64_t{1}}, {"alpha", 2.0F}},
                           .opset = 1},
                          {a, b});
  EXPECT_LT(largest_error(y[0].tensor(), reference(at, bt, {2})), 1e-5);
}

// transBatchA: a is (M, batch, K).
TEST(FusedMatMul, BatchAxisInTheMiddle) {
  const Tensor a = random_tensor({20, 3, 16}, 1), b = random_tensor({3, 16, 10}, 2);
  Tensor moved = Tensor::allocate(DataType::kFloat, {3, 20, 16});
  for (int64_t i = 0; i < 20; ++i)
    for (int64_t n = 0; n < 3; ++n)
      for (int64_t k = 0; k < 16; ++k)
        moved.mutable_data<float>()[(n * 20 + i) * 16 + k] = a.data<float>()[(i * 3 + n) * 16 + k];
  const auto y = run_node(
      {.type = "FusedMatMul", .domain = "com.microsoft", .attributes = {{"transBatchA", int64_t{1}}}, .opset = 1},
      {a, b});
  EXPECT_EQ(y[0].tensor().shape(), (Shape{3, 20, 10}));
  EXPECT_LT(largest_error(y[0].tensor(), reference(moved, b, {3})), 1e-5);
}

TEST(Linear, EpilogueInEveryForm) {
  for (const int64_t rows : {int64_t{1}, int64_t{5}, int64_t{40}})
    for (const std::string activation : {"none", "relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid"}) {
      const Tensor x = random_tensor({rows, 48}, 1), w = random_tensor({33, 48}, 2), bias = random_tensor({33}, 3),
                   residual = random_tensor({rows, 33}, 4);
      std::vector<double> want;
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t n = 0; n < 33; ++n) {
          double v = static_cast<double>(bias.data<float>()[n]);
          for (int64_t k = 0; k < 48; ++k)
            v += static_cast<double>(x.data<float>()[r * 48 + k]) * static_cast<double>(w.data<float>()[n * 48 + k]);
          if (activation == "relu") v = std::max(v, 0.0);
          if (activation == "gelu") v = v / 2 * (1 + std::erf(v / std::sqrt(2.0)));
          if (activation == "gelu_tanh") v = v / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
          if (activation == "silu") v = v / (1 + std::exp(-v));
          if (activation == "tanh") v = std::tanh(v);
          if (activation == "sigmoid") v = 1 / (1 + std::exp(-v));
          want.push_back(v + static_cast<double>(residual.data<float>()[r * 33 + n]));
        }
      for (const size_t constant : {size_t{1}, ~size_t{0}}) {
        std::vector<Tensor> inputs{x, w, bias, residual};
        // The residual must stay an input: first_constant 1 makes it a constant, which is as good for the numbers.
        const auto y = run_node({.type = "Linear",
                                 .domain = "ai.attune",
                                 .attributes = {{"transposed", int64_t{1}}, {"activation", activation}},
                                 .opset = 1,
                                 .first_constant = constant},
                                inputs);
        EXPECT_LT(largest_error(y[0].tensor(), want), 1e-5) << activation << " of " << rows << " rows";
      }
    }
}

// MatMul of a DequantizeLinear of constants keeps the storage and doesn't read the dequantised weights.
void check_quantized(const Tensor& stored, const Tensor& scale, Attributes attributes, const Tensor& zero = {}) {
  Graph graph;
  Value* x = graph.add_input("x", ValueType::of(DataType::kFloat));
  std::vector<Value*> inputs{graph.add_constant(stored), graph.add_constant(scale)};
  if (zero.defined()) inputs.push_back(graph.add_constant(zero));
  const Node* dequantize = graph.add_node("", "DequantizeLinear", inputs, 1, std::move(attributes));
  const Node* product = graph.add_node("", "MatMul", {x, dequantize->output()});
  const SimpleContext context(*product, 21);
  const auto kernel = find_op("", "MatMul", 21)->prepare(context);
  EXPECT_FALSE(kernel->uses_input(1));

  std::vector<Datum> constants;
  for (const Value* v : inputs) constants.emplace_back(*v->constant());
  const Tensor weights = evaluate(*dequantize, 21, constants)[0].tensor();
  for (const int64_t rows : {int64_t{1}, int64_t{30}}) {
    const Tensor a = random_tensor({rows, stored.dim(0)}, 7);
    SimpleCall call({Datum(a), Datum()}, 1, nullptr);
    kernel->run(call);
    EXPECT_LT(largest_error(call.outputs()[0].tensor(), reference(a, weights, {})), 1e-5);
  }
}

TEST(MatMul, QuantizedWeightsStayInTheirStorage) {
  const Tensor int8 = random_integers<int8_t>({64, 37}, 1, -128, 127),
               uint8 = random_integers<uint8_t>({64, 37}, 2, 0, 255);
  Tensor int4 = Tensor::allocate(DataType::kInt4, {64, 38});
  for (size_t i = 0; i < int4.bytes(); ++i) int4.mutable_raw()[i] = static_cast<std::byte>(i * 37 % 256);
  check_quantized(int8, random_tensor({}, 3, 0.01F, 0.02F), {});
  check_quantized(int8, random_tensor({37}, 3, 0.01F, 0.02F), {{"axis", int64_t{1}}});
  check_quantized(int8, random_tensor({4, 37}, 3, 0.01F, 0.02F), {{"axis", int64_t{0}}, {"block_size", int64_t{16}}});
  check_quantized(int4, random_tensor({2, 38}, 3, 0.01F, 0.02F), {{"axis", int64_t{0}}, {"block_size", int64_t{32}}});
  check_quantized(uint8, random_tensor({37}, 3, 0.01F, 0.02F), {{"axis", int64_t{1}}},
                  Tensor::from<uint8_t>({37}, std::vector<uint8_t>(37, 128)));
}

TEST(LinearWeights, EqualWeightsAreKeptOnce) {
  const Tensor w = random_tensor({40, 50}, 1), equal = w.clone(), other = random_tensor({40, 50}, 2);
  const LinearWeights a(w, false, {}), b(equal, false, {}), c(other, false, {}), d(w, true, {});
  EXPECT_EQ(a.panels(), b.panels());
  EXPECT_NE(a.panels(), c.panels());
  EXPECT_NE(a.panels(), d.panels());
}

}  // namespace
}  // namespace attune::testing
