// Operators of ONNX Runtime's quantiser run through their forms in standard operators.
#include "ops/schema/quantized_forms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "graph/io/text.h"
#include "runtime/profile.h"
#include "runtime/session.h"
#include "tests/support/error_matchers.h"
#include "tests/support/profiled_run.h"

namespace attune {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::Pointwise;

test::ProfiledRun run(const std::string& graph, const TensorMap& inputs) {
  return test::profiled_run(
      parse_model("<ir_version: 10, opset_import: [\"\" : 21, \"com.microsoft\" : 1]> g " + graph), inputs);
}

Tensor bytes(const Shape& shape, std::initializer_list<uint8_t> values) { return Tensor::from<uint8_t>(shape, values); }

// a: steps of 0.5 from 10; b: steps of 0.25 from 0; y: steps of 0.5 from 20.
constexpr const char* kBinary =
    " <float as = {0.5}, uint8 az = {10}, float bs = {0.25}, uint8 bz = {0}, float ys = {0.5}, uint8 yz = {20}> ";

TEST(QuantizedForms, AddRoundsAfterTheZeroPoint) {
  // (a - 10) + b / 2 + 20: 12.5 goes to the even 12, 13.5 to 14; the ends saturate.
  const test::ProfiledRun r = run("(uint8[5] a, uint8[5] b) => (uint8[5] y)" + std::string(kBinary) +
                                      "{ y = com.microsoft.QLinearAdd(a, as, az, b, bs, bz, ys, yz) }",
                                  {{"a", bytes({5}, {2, 3, 0, 255, 12})}, {"b", bytes({5}, {1, 1, 0, 255, 4})}});
  EXPECT_EQ(r.type, DataType::kUInt8);
  EXPECT_THAT(r.y, ElementsAre(12, 14, 10, 255, 24));
}

TEST(QuantizedForms, Mul) {
  // (a - 10) b / 4 + 20
  const test::ProfiledRun r = run("(uint8[4] a, uint8[1] b) => (uint8[4] y)" + std::string(kBinary) +
                                      "{ y = com.microsoft.QLinearMul(a, as, az, b, bs, bz, ys, yz) }",
                                  {{"a", bytes({4}, {10, 11, 13, 2})}, {"b", bytes({1}, {6})}});
  EXPECT_THAT(r.y, ElementsAre(20, 22, 24, 8));
}

TEST(QuantizedForms, SignedResults) {
  const test::ProfiledRun r = run(R"((int8[3] a) => (int8[3] y) <float s = {0.5}, int8 z = {-4}, int8[1] b = {-3}> {
    y = com.microsoft.QLinearAdd(a, s, z, b, s, z, s, z)
  })",
                                  {{"a", Tensor::from<int8_t>({3}, {-128, 5, 127})}});
  EXPECT_THAT(r.y, ElementsAre(-127, 6, 127));
}

TEST(QuantizedForms, ConcatOfDifferentScales) {
  const test::ProfiledRun r = run(R"((uint8[2] a, uint8[1] b) => (uint8[3] y)
      <float s = {0.5}, float t = {1}, uint8 z = {0}, uint8 w = {2}> {
    y = com.microsoft.QLinearConcat <axis = 0> (t, w, a, s, z, b, t, z)
  })",
                                  {{"a", bytes({2}, {4, 10})}, {"b", bytes({1}, {7})}});
  EXPECT_THAT(r.y, ElementsAre(4, 7, 9));
}

TEST(QuantizedForms, Where) {
  const test::ProfiledRun r =
      run(R"((bool[2] c, uint8[2] a, uint8[1] b) => (uint8[2] y) <float s = {0.5}, float t = {1}, uint8 z = {0}> {
    y = com.microsoft.QLinearWhere(c, a, s, z, b, t, z, s, z)
  })",
          {{"c", Tensor::from<bool>({2}, {true, false})}, {"a", bytes({2}, {4, 10})}, {"b", bytes({1}, {7})}});
  EXPECT_THAT(r.y, ElementsAre(4, 14));
}

TEST(QuantizedForms, UnaryFunctions) {
  const std::string scales = " <float s = {0.5}, uint8 z = {128}, float t = {0.00390625}, uint8 w = {0}> ";
  const Tensor x = bytes({3}, {120, 128, 132});
  EXPECT_THAT(
      run("(uint8[3] a) => (uint8[3] y)" + scales + "{ y = com.microsoft.QLinearSigmoid(a, s, z, t, w) }", {{"a", x}})
          .y,
      ElementsAre(std::round(256 / (1 + std::exp(4.0))), 128, std::round(256 / (1 + std::exp(-2.0)))));
  EXPECT_THAT(run("(uint8[3] a) => (uint8[3] y)" + scales +
                      "{ y = com.microsoft.QLinearLeakyRelu <alpha = 0.25> (a, s, z, s, z) }",
                  {{"a", x}})
                  .y,
              ElementsAre(126, 128, 132));
  EXPECT_THAT(run("(uint8[1,2] a) => (uint8[1,2] y)" + scales +
                      "{ y = com.microsoft.QLinearSoftmax <axis = -1, opset = 13> (a, s, z, t, w) }",
                  {{"a", bytes({1, 2}, {128, 128})}})
                  .y,
              ElementsAre(128, 128));
}

// Expected values: ONNX Runtime 1.32, which takes 126 steps of 0.0079 for 1.
TEST(QuantizedForms, SoftmaxInWholeSteps) {
  const std::string scales = " <float s = {0.5}, uint8 z = {128}, float t = {0.0079}, uint8 w = {3}> ";
  const std::string softmax = "{ y = com.microsoft.QLinearSoftmax <axis = -1, opset = 13> (a, s, z, t, w) }";
  EXPECT_THAT(run("(uint8[1,1] a) => (uint8[1,1] y)" + scales + softmax, {{"a", bytes({1, 1}, {200})}}).y,
              ElementsAre(129));
  EXPECT_THAT(run("(uint8[1,3] a) => (uint8[1,3] y)" + scales + softmax, {{"a", bytes({1, 3}, {128, 130, 129})}}).y,
              ElementsAre(26, 67, 42));
  const std::string along_rows = "{ y = com.microsoft.QLinearSoftmax <axis = 0, opset = 13> (a, s, z, t, w) }";
  EXPECT_THAT(
      run("(uint8[3,2] a) => (uint8[3,2] y)" + scales + along_rows, {{"a", bytes({3, 2}, {128, 7, 130, 7, 129, 7})}}).y,
      ElementsAre(26, 45, 67, 45, 42, 45));
}

// Expected values: ONNX Runtime 1.32.
TEST(QuantizedForms, ChannelsLast) {
  const std::string scales = " <float s = {1}, uint8 z = {0}, int8 o = {0}, ";
  const std::string conv = "{ y = com.microsoft.QLinearConv <channels_last = 1> (a, s, z, w, s, o, s, z, b) }";
  const Tensor x = bytes({1, 2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  const auto pooled = [&](const std::string& shape, const std::string& pool) {
    return run("(uint8[1,2,2,2] a) => (uint8" + shape + " y) <float s = {1}, uint8 z = {0}> { y = com.microsoft." +
                   pool + "(a, s, z, s, z) }",
               {{"a", x}})
        .y;
  };
  EXPECT_THAT(run("(uint8[1,2,2,2] a) => (uint8[1,2,2,2] y)" + scales +
                      "int8[2,2,1,1] w = {1, 2, 0, 1}, int32[2] b = {1, -1}> " + conv,
                  {{"a", x}})
                  .y,
              ElementsAre(3, 0, 9, 2, 15, 4, 21, 6));
  EXPECT_THAT(
      run("(uint8[1,3,2] a) => (uint8[1,2,1] y)" + scales + "int8[1,2,2] w = {1, 2, 0, 1}, int32[1] b = {0}> " + conv,
          {{"a", bytes({1, 3, 2}, {0, 1, 2, 3, 4, 5})}})
          .y,
      ElementsAre(7, 15));
  EXPECT_THAT(pooled("[1,1,1,2]", "QLinearGlobalAveragePool <channels_last = 1> "), ElementsAre(3, 4));
  EXPECT_THAT(pooled("[1,2,1,2]", "QLinearAveragePool <channels_last = 1, kernel_shape = [1, 2]> "),
              ElementsAre(1, 2, 5, 6));
  EXPECT_THAT(
      run("(uint8[1,2,2,2] a) => (uint8[1,1,2,2] y) { y = com.microsoft.NhwcMaxPool <kernel_shape = [2, 1]> (a) }",
          {{"a", bytes({1, 2, 2, 2}, {1, 8, 3, 4, 5, 6, 0, 7})}})
          .y,
      ElementsAre(5, 8, 3, 7));
}

TEST(QuantizedForms, MeansAndPools) {
  const std::string scales = " <float s = {0.5}, uint8 z = {0}, float t = {0.25}, uint8 w = {1}> ";
  const Tensor x = bytes({1, 1, 2, 2}, {1, 2, 3, 6});
  EXPECT_THAT(run("(uint8[1,1,2,2] a) => (uint8[1,1,2] y)" + scales +
                      "{ y = com.microsoft.QLinearReduceMean <axes = [3], keepdims = 0> (a, s, z, t, w) }",
                  {{"a", x}})
                  .y,
              ElementsAre(4, 10));
  EXPECT_THAT(run("(uint8[1,1,2,2] a) => (uint8[1,1,1,1] y)" + scales +
                      "{ y = com.microsoft.QLinearGlobalAveragePool(a, s, z, t, w) }",
                  {{"a", x}})
                  .y,
              ElementsAre(7));
  EXPECT_THAT(run("(uint8[1,1,2,2] a) => (uint8[1,1,1,2] y)" + scales +
                      "{ y = com.microsoft.QLinearAveragePool <kernel_shape = [2, 1]> (a, s, z, t, w) }",
                  {{"a", x}})
                  .y,
              ElementsAre(5, 9));
}

TEST(QuantizedForms, GemmWithAndWithoutQuantizedResult) {
  // a = (1, 2); b's rows are (1, 2) and (3, 4) by 0.5 a column; c = (2, 4) in steps of 1 * 0.5.
  const std::string head = R"((uint8[1,2] a) => ()";
  const std::string operands =
      " <float s = {1}, uint8 z = {0}, int8[2,2] b = {1, 2, 3, 4}, float t = {0.5}, int8 w = {0}, int32[2] c = {2, "
      "4}> ";
  const Tensor a = bytes({1, 2}, {1, 2});
  EXPECT_THAT(run(head + "float[1,2] y)" + operands + "{ y = com.microsoft.QGemm(a, s, z, b, t, w, c) }", {{"a", a}}).y,
              ElementsAre(4.5, 7));
  EXPECT_THAT(
      run(head + "uint8[1,2] y)" + operands + "{ y = com.microsoft.QGemm <transB = 1> (a, s, z, b, t, w, c, t, z) }",
          {{"a", a}})
          .y,
      ElementsAre(7, 15));
}

// ---- MatMulNBits

// y (1, N) for x (1, K) = 1, 2, 3 ...; codes[n][k] less zero[n][block], by scale[n][block].
struct NBits {
  int64_t columns, inner, block, bits;
  std::vector<int> codes, zeros;  // zeros empty: the middle
  std::vector<float> scales;
  bool bias = false;

  int64_t blocks() const { return (inner + block - 1) / block; }
  int code(int64_t n, int64_t k) const { return codes[static_cast<size_t>(n * inner + k)]; }

  std::vector<double> expected() const {
    std::vector<double> y;
    for (int64_t n = 0; n < columns; ++n) {
      double sum = bias ? 100.0 * static_cast<double>(n + 1) : 0;
      for (int64_t k = 0; k < inner; ++k) {
        const auto at = static_cast<size_t>(n * blocks() + k / block);
        const int zero = zeros.empty() ? 1 << (bits - 1) : zeros[at];
        sum += static_cast<double>(k + 1) * (code(n, k) - zero) * static_cast<double>(scales[at]);
      }
      y.push_back(sum);
    }
    return y;
  }

  // Rows of `count` codes as bytes, padded to whole bytes.
  static void append_row(std::vector<uint8_t>& to, const std::vector<int>& row, int64_t bits) {
    if (bits == 8) {
      to.insert(to.end(), row.begin(), row.end());
      return;
    }
    for (size_t i = 0; i < row.size(); i += 2)
      to.push_back(static_cast<uint8_t>(row[i] | (i + 1 < row.size() ? row[i + 1] << 4 : 0)));
  }

  test::ProfiledRun run_model() const {
    Model m;
    m.ir_version = 10;
    m.opset_imports = {{"", 21}, {"com.microsoft", 1}};
    std::vector<uint8_t> packed, points;
    for (int64_t n = 0; n < columns; ++n) {
      for (int64_t b = 0; b < blocks(); ++b) {
        std::vector<int> row;
        for (int64_t k = b * block; k < (b + 1) * block; ++k) row.push_back(k < inner ? code(n, k) : 0);
        append_row(packed, row, bits);
      }
      if (!zeros.empty()) append_row(points, {zeros.begin() + n * blocks(), zeros.begin() + (n + 1) * blocks()}, bits);
    }
    Graph& g = *m.graph;
    Value* x = g.add_input("x", ValueType::of(DataType::kFloat, Dims{Dim(1), Dim(inner)}));
    std::vector<Value*> inputs{x, g.add_constant(Tensor::from<uint8_t>({columns, blocks(), block * bits / 8}, packed)),
                               g.add_constant(Tensor::from<float>({columns * blocks()}, scales))};
    if (!zeros.empty())
      inputs.push_back(g.add_constant(Tensor::from<uint8_t>({static_cast<int64_t>(points.size())}, points)));
    if (bias) {
      inputs.resize(5, nullptr);
      std::vector<float> values;
      for (int64_t n = 0; n < columns; ++n) values.push_back(100.0F * static_cast<float>(n + 1));
      inputs.push_back(g.add_constant(Tensor::from<float>({columns}, values)));
    }
    Node* node = g.add_node("com.microsoft", "MatMulNBits", inputs, 1,
                            {{"K", inner}, {"N", columns}, {"bits", bits}, {"block_size", block}});
    node->output()->set_name("y");
    g.add_output(node->output());
    std::vector<float> counting;
    for (int64_t k = 0; k < inner; ++k) counting.push_back(static_cast<float>(k + 1));
    return test::profiled_run(m, {{"x", Tensor::from<float>({1, inner}, counting)}});
  }
};

NBits example(int64_t bits, bool zeros) {
  NBits n{3, 20, 16, bits, {}, {}, {}, false};
  for (int i = 0; i < 60; ++i) n.codes.push_back(i * 7 % (1 << bits));
  for (int i = 0; i < 6; ++i) n.scales.push_back(0.125F * static_cast<float>(i + 1));
  if (zeros) n.zeros = {3, 9, 8, 0, 15, 7};
  return n;
}

TEST(MatMulNBits, BlocksOfFourBitsStayPacked) {
  const NBits n = example(4, false);
  const test::ProfiledRun r = n.run_model();
  EXPECT_THAT(r.y, Pointwise(DoubleNear(1e-3), n.expected()));
  EXPECT_THAT(r.ops, ElementsAre("ai.attune.Linear"));
}
TEST(MatMulNBits, ZeroPoints) {
  const NBits n = example(4, true);
  EXPECT_THAT(n.run_model().y, Pointwise(DoubleNear(1e-3), n.expected()));
}
TEST(MatMulNBits, EightBits) {
  NBits n = example(8, false);
  EXPECT_THAT(n.run_model().y, Pointwise(DoubleNear(2e-2), n.expected()));
  n = example(8, true);
  EXPECT_THAT(n.run_model().y, Pointwise(DoubleNear(2e-2), n.expected()));
}
TEST(MatMulNBits, Bias) {
  NBits n = example(4, false);
  n.bias = true;
  EXPECT_THAT(n.run_model().y, Pointwise(DoubleNear(1e-3), n.expected()));
}
TEST(MatMulNBits, WeightsThatDoNotFit) {
  const std::string graph =
      R"((float[1,2] x) => (float[1,1] y) <uint8[1,1,8] w = {0, 0, 0, 0, 0, 0, 0, 0}, float[2] s = {1, 1}> {
    y = com.microsoft.MatMulNBits <K = 2, N = 1, bits = 4, block_size = 16> (x, w, s)
  })";
  EXPECT_THAT(test::thrown([&] { run(graph, {}); }),
              test::IsError(Error::Kind::kInvalidModel, "scales: expected 1 elements, got shape (2)"));
}

}  // namespace
}  // namespace attune
