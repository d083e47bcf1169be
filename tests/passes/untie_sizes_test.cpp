// Masks of sound are longer than the states that a convolution made of it, though exporters give both one size.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/io/text.h"
#include "passes/passes.h"
#include "runtime/session.h"

namespace attune {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Untied {
  explicit Untied(const std::string& body)
      : model(parse_model("<ir_version: 8, opset_import: [\"\" : 17, \"ai.attune\" : 1]> g " + body)) {
    PassContext context{model, report, {}};
    changes = untie_sizes(context);
  }
  std::string mask() const { return model.graph->inputs()[1]->tensor_type().dim(1).to_string(); }

  Model model;
  Report report;
  size_t changes = 0;
};

// Every second position of the mask, as many as there are states (Moonshine).
const std::string kStrided = R"((float[B,S,4] states, int64[B,S] mask) => (float[B,S,4] y)
    <int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] end = {1000}>
    {
      half = Slice (mask, zero, end, one, two)
      shape = Shape (states)
      length = Slice (shape, one, two)
      some = Slice (half, zero, length, one)
      column = Unsqueeze (some, two)
      factor = Cast <to = 1> (column)
      y = Mul (states, factor)
    })";

TEST(UntieSizes, AMaskThatIsMadeShorter) {
  const Untied u(kStrided);
  EXPECT_EQ(u.changes, 1U);
  EXPECT_EQ(u.mask(), "mask_S");
  ASSERT_EQ(u.report.notes.size(), 1U);
  EXPECT_THAT(u.report.notes[0], HasSubstr("input 'mask' may be longer than 'states', though both are of 'S'"));
}

TEST(UntieSizes, WhatIsOptimizedTakesLongMasks) {
  Model model = parse_model("<ir_version: 8, opset_import: [\"\" : 17]> g " + kStrided);
  Report report;
  optimize(model, report);
  Session session(Plan::compile(model), {.threads = 1});
  const auto outputs = session.run({{"states", Tensor::from<float>({1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8})},
                                    {"mask", Tensor::from<int64_t>({1, 4}, {1, 1, 0, 1})}});
  EXPECT_THAT(outputs.at("y").tensor().to_double(), ElementsAre(1, 2, 3, 4, 0, 0, 0, 0));
}

// The lengths of the mask alone say which states exist (Speech2Text).
TEST(UntieSizes, AMaskOfWhichOnlySumsAreRead) {
  const Untied u(R"((float[B,S,4] states, int64[B,S] mask) => (float[B,S,4] y) <int64[1] one = {1}>
    {
      lengths = ReduceSum <keepdims = 1> (mask, one)
      factor = Cast <to = 1> (lengths)
      column = Unsqueeze (factor, one)
      y = Mul (states, column)
    })");
  EXPECT_EQ(u.mask(), "mask_S");
}

// What joins states without the mask says nothing of it.
TEST(UntieSizes, StatesThatAreJoinedWithEachOther) {
  const Untied u(R"((float[B,S,4] states, int64[B,S] mask) => (float[B,S,8] y) <int64[1] one = {1}>
    {
      lengths = ReduceSum <keepdims = 1> (mask, one)
      factor = Cast <to = 1> (lengths)
      column = Unsqueeze (factor, one)
      both = Concat <axis = 2> (states, states)
      y = Mul (both, column)
    })");
  EXPECT_EQ(u.mask(), "mask_S");
}

// A mask says of each position of each source whether it exists.
TEST(UntieSizes, OtherIntegersStayAsLong) {
  const Untied u(R"((float[B,S,4] states, int64[B,S,2] pairs) => (float[B,S,4] y) <int64[2] axes = {1, 2}>
    {
      sums = ReduceSum <keepdims = 1> (pairs, axes)
      factor = Cast <to = 1> (sums)
      y = Mul (states, factor)
    })");
  EXPECT_EQ(u.mask(), "S");
}

TEST(UntieSizes, MasksOfStatesStayAsLong) {
  const Untied u(R"((float[B,S,4] states, int64[B,S] mask) => (float[B,S,4] y) <int64[1] two = {2}>
    {
      column = Unsqueeze (mask, two)
      factor = Cast <to = 1> (column)
      y = Mul (states, factor)
    })");
  EXPECT_EQ(u.changes, 0U);
  EXPECT_EQ(u.mask(), "S");
}

// torch.export reads the length of keys from the mask.
TEST(UntieSizes, MasksWhoseLengthReshapesStatesStayAsLong) {
  const Untied u(R"((float[B,S,4] states, int64[B,S] mask) => (float[B,S,2,2] y) <int64[2] heads = {2, 2}>
    {
      shape = Shape (mask)
      target = Concat <axis = 0> (shape, heads)
      split = Reshape (states, target)
      y = Neg (split)
    })");
  EXPECT_EQ(u.mask(), "S");
}

// The heads' batch is that of the queries, under another name than the states': what needs it to be the same says
// nothing of the mask.
TEST(UntieSizes, SizesThatDifferAnywayAreNotCounted) {
  const Untied u(R"((float[B,S,4] states, int64[C,S] mask, float[C,1,4] q) => (float[C,S,4] y, float[B,S,2,2] z)
    <int64[1] four = {4}, int64[2] heads = {2, 2}>
    {
      shape = Shape (mask)
      target = Concat <axis = 0> (shape, four)
      memory = Reshape (states, target)
      y = Add (memory, q)
      length = Shape <start = 1> (mask)
      batch = Shape <end = 1> (states)
      split = Concat <axis = 0> (batch, length, heads)
      z = Reshape (states, split)
    })");
  EXPECT_EQ(u.mask(), "S");
}

TEST(UntieSizes, MasksThatAreJoinedWithOthers) {
  const auto sums = [](const std::string& parts) {
    return Untied(R"((float[B,S,4] states, int64[B,S] mask, int64[B,2] prefix) => (float[B,S,4] y)
    <int64[1] one = {1}, int64[2] rows = {2, 1}>
    {
      some = ReduceSum <keepdims = 0> (states)
      ids = Cast <to = 7> (states)
      all = Concat <axis = 1> ()" +
                  parts + R"()
      lengths = ReduceSum <keepdims = 1> (all, one)
      factor = Cast <to = 1> (lengths)
      scale = Reshape (factor, rows)
      total = ReduceMax <keepdims = 0> (scale)
      y = Mul (states, total)
    })")
        .mask();
  };
  EXPECT_EQ(sums("prefix, mask"), "mask_S");
}

TEST(UntieSizes, OperandsOfUnknownRank) {
  const Untied u(R"((float[B,S,4] states, int64[B,S] mask, int64[N] shape) => (float y, float[B,S,4] z)
    <int64[1] one = {1}>
    {
      flat = Reshape (states, shape)
      y = Concat <axis = 0> (flat, flat)
      lengths = ReduceSum <keepdims = 1> (mask, one)
      factor = Cast <to = 1> (lengths)
      column = Unsqueeze (factor, one)
      z = Mul (states, column)
    })");
  EXPECT_EQ(u.mask(), "mask_S");
}

TEST(UntieSizes, MasksOfFusedAttentionStayAsLong) {
  const Untied u(R"((float[B,S,4] states, bool[B,S] mask) => (float[B,S,4] y) <int64[2] axes = {1, 2}>
    {
      m = Unsqueeze (mask, axes)
      y = ai.attune.Attention <num_heads = 2> (states, states, states, , , , , , , m)
    })");
  EXPECT_EQ(u.mask(), "S");
}

// transformers cuts masks to the number of keys, which they have.
TEST(UntieSizes, MasksThatAreCutToTheStatesStayAsLong) {
  const Untied u(R"((float[B,S,4] states, int64[B,S] mask) => (float[B,S,4] y)
    <int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}>
    {
      shape = Shape (states)
      length = Slice (shape, one, two)
      some = Slice (mask, zero, length, one)
      column = Unsqueeze (some, two)
      factor = Cast <to = 1> (column)
      y = Mul (states, factor)
    })");
  EXPECT_EQ(u.mask(), "S");
}

}  // namespace
}  // namespace attune
