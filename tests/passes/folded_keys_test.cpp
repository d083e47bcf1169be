// torch.export without a name for the batch: keys and values are folded by the batch of the queries.
#include <gtest/gtest.h>

#include <cmath>

#include "graph/io/text.h"
#include "passes/attention_node.h"
#include "passes/pass.h"
#include "runtime/session.h"

namespace attune {
namespace {

constexpr const char* kText = R"(<ir_version: 8, opset_import: ["" : 17]>
  g (float[B,2,T,4] q4, float[C,2,S,4] k4, float[C,2,S,4] v4) => (float[N,T,4] y)
  <int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] three = {3}, int64[1] four = {4},
   int64[2] rest = {-1, 4}>
  {
    sq = Shape (q4)
    batch = Slice (sq, zero, one)
    length = Slice (sq, two, three)
    rows = Mul (batch, two)
    fq = Concat <axis = 0> (rows, length, four)
    fk = Concat <axis = 0> (rows, rest)
    q = Reshape (q4, fq)
    k = Reshape (k4, fk)
    v = Reshape (v4, fk)
    kt = Transpose <perm = [0, 2, 1]> (k)
    e = MatMul (q, kt)
    w = Softmax <axis = -1> (e)
    y = MatMul (w, v)
  })";

Tensor numbers(const Shape& shape, float step) {
  Tensor t = Tensor::allocate(DataType::kFloat, shape);
  for (int64_t i = 0; i < t.count(); ++i) t.mutable_data<float>()[i] = std::sin(step * static_cast<float>(i));
  return t;
}

TEST(FoldedKeys, OfABatchWithAnotherNameAreSplitAsTheQueriesAre) {
  const Model source = parse_model(kText);
  Model model = parse_model(kText);
  Report report;
  optimize(model, report);
  size_t attentions = 0;
  model.graph->for_each_node([&](const Node& n) {
    if (!is_attention(n)) return;
    ++attentions;
    EXPECT_EQ(n.attr_int("num_heads", 0), 2);
    EXPECT_EQ(n.input(kAttentionQuery)->tensor_type().rank(), 4);
  });
  EXPECT_EQ(attentions, 1U);
  const TensorMap inputs = {
      {"q4", numbers({3, 2, 5, 4}, 0.7F)}, {"k4", numbers({3, 2, 6, 4}, 1.3F)}, {"v4", numbers({3, 2, 6, 4}, 2.9F)}};
  const auto run = [&](const Model& m) {
    return Session(Plan::compile(m), {.threads = 1}).run(inputs).at("y").tensor().to_double();
  };
  const auto expected = run(source), found = run(model);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-6);
}

}  // namespace
}  // namespace attune
