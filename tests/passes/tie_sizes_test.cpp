// Sizes of inputs that a Reshape forces to be equal, or to be a number.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/io/text.h"
#include "ops/infer/infer.h"
#include "passes/passes.h"

namespace attune {
namespace {

struct Tied {
  size_t changes;
  std::string x, y;  // the shapes of the inputs
  std::vector<std::string> notes;
};

Tied tie(const std::string& text) {
  Model model = parse_model(text);
  Report report;
  const PassOptions options;
  PassContext context{model, report, options};
  const size_t changes = tie_sizes(context);
  const auto inputs = model.graph->inputs();
  return {changes, to_string(*inputs[0]->tensor_type().shape), to_string(*inputs[1]->tensor_type().shape),
          report.notes};
}

// Reshapes y, of shape (S,C,8), to a target of `batch`, the first size of x, and `length`, the first size of y.
Tied tie_target(const std::string& target, const std::string& attributes = "") {
  return tie(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[B,T,8] x, float[S,C,8] y) => (float[P,Q,R] z)
    <int64[1] zero = {0}, int64[1] rest = {-1}, int64[1] two = {2}, int64[1] three = {3}, int64[1] four = {4},
     int64[1] five = {5}>
    { sx = Shape (x)
      sy = Shape (y)
      batch = Gather (sx, zero)
      length = Gather (sy, zero) )" +
             target + "\n z = Reshape " + attributes + " (y, target) }");
}

// Keys of a batch under another name are split into heads of the queries' batch.
TEST(TieSizes, BatchesThatAReshapeMakesEqual) {
  const Tied t = tie_target("heads = Mul (batch, two) target = Concat <axis = 0> (length, heads, four)");
  EXPECT_EQ(t.changes, 1U);
  EXPECT_EQ(t.x, "(B,T,8)");
  EXPECT_EQ(t.y, "(S,B,8)");
  ASSERT_EQ(t.notes.size(), 1U);
  EXPECT_NE(t.notes[0].find("size 'C' of inputs is always B"), std::string::npos) << t.notes[0];
}

// TorchScript writes the length that it traced into the target.
TEST(TieSizes, LengthThatWasTraced) {
  const Tied t = tie(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[B,T,8] x, float[S,B,8] y) => (float[P,Q,R] z)
    <int64[1] zero = {0}, int64[1] two = {2}, int64[1] four = {4}, int64[1] five = {5}>
    { s = Shape (x)
      batch = Gather (s, zero)
      heads = Mul (batch, two)
      target = Concat <axis = 0> (five, heads, four)
      z = Reshape (y, target) })");
  EXPECT_EQ(t.y, "(5,B,8)");
}

TEST(TieSizes, ZeroCopiesTheSizeUnlessItIsAllowed) {
  const std::string target = "heads = Mul (batch, two) target = Concat <axis = 0> (zero, heads, four)";
  EXPECT_EQ(tie_target(target).y, "(S,B,8)");
  EXPECT_EQ(tie_target(target, "<allowzero = 1>").changes, 0U);
}

// dynamo leaves the number of heads to be inferred from two names of one batch: queries have two heads.
TEST(TieSizes, HeadsThatMeetInAProduct) {
  const auto heads = [](const std::string& queries, const std::string& operands) {
    return tie(R"(<ir_version: 8, opset_import: ["" : 17]>
      g (float[B,)" +
               queries + R"(,T,4] x, float[C,S,8] y) => (float[P,Q,R,U] z)
      <int64[1] zero = {0}, int64[1] rest = {-1}, int64[1] four = {4}>
      { sx = Shape (x)
        sy = Shape (y)
        one = Constant <value_ints = [1]> ()
        batch = Gather (sx, zero)
        length = Gather (sy, one)
        target = Concat <axis = 0> (batch, length, rest, four)
        r = Reshape (y, target)
        k = Transpose <perm = [0, 2, 3, 1]> (r)
        z = )" +
               operands + " }");
  };
  EXPECT_EQ(heads("2", "MatMul (x, k)").y, "(B,S,8)");
  EXPECT_EQ(heads("1", "MatMul (x, k)").changes, 0U) << "one head is broadcast";
  EXPECT_EQ(heads("H", "MatMul (x, k)").changes, 0U) << "any number of heads";
  EXPECT_EQ(heads("2", "Identity (k)").changes, 0U) << "no product";
}

TEST(TieSizes, EquationsThatDetermineNoSizeAreLeft) {
  EXPECT_EQ(tie_target("heads = Mul (batch, two) target = Concat <axis = 0> (heads, rest, four)").changes, 0U);
  EXPECT_EQ(tie_target("heads = Mul (batch, three) target = Concat <axis = 0> (length, heads, four)").changes, 0U);
  EXPECT_EQ(tie_target("heads = Add (batch, two) target = Concat <axis = 0> (length, heads, four)").changes, 0U);
  EXPECT_EQ(tie_target("target = Concat <axis = 0> (batch, five, four)").changes, 0U);
}

// A Reshape in a body may never run.
TEST(TieSizes, BodiesForceNothing) {
  const Tied t = tie(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[B] x, float[S,8] y, bool c) => (float[P,Q] z) <int64[2] five = {5, 8}>
    { z = If (c) <then_branch = a () => (float[P,Q] v) { v = Reshape (y, five) },
                  else_branch = b () => (float[P,Q] w) { w = Identity (y) }> })");
  EXPECT_EQ(t.changes, 0U);
}

constexpr const char* kCaches = R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[B,2,P,4] x, float[C,2,R,4] y, float[B,2,1,4] k) => (float[D,2,1,4] z)
    { keys = Concat <axis = 2> (x, k)
      values = Concat <axis = -2> (y, k)
      kt = Transpose <perm = [0, 1, 3, 2]> (keys)
      scores = MatMul (k, kt)
      weights = Softmax <axis = -1> (scores)
      z = MatMul (weights, values) })";

// torch.export gives each cache a length of its own, and a batch.
TEST(TieSizes, PastsThatAProductMakesEqual) {
  const Tied t = tie(kCaches);
  EXPECT_EQ(t.x, "(B,2,P,4)");
  EXPECT_EQ(t.y, "(B,2,P,4)");
  ASSERT_EQ(t.notes.size(), 2U);
  EXPECT_THAT(t.notes[0] + t.notes[1], testing::HasSubstr("size 'R' of inputs is always P: "));
  EXPECT_THAT(t.notes[0] + t.notes[1], testing::HasSubstr("size 'C' of inputs is always B: "));
}

TEST(TieSizes, InnerSizeOfAProductThatIsANumber) {
  const Tied t = tie(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[B,T] x, float[5,N] y) => (float[B,N] z) { z = MatMul (x, y) })");
  EXPECT_EQ(t.x, "(B,5)");
}

// What broadcasts may be 1.
TEST(TieSizes, BatchesOfAProductAreNotTied) {
  const Tied t = tie(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[B,T,4] x, float[C,4,N] y) => (float[D,T,N] z) { z = MatMul (x, y) })");
  EXPECT_EQ(t.changes, 0U);
  EXPECT_EQ(t.y, "(C,4,N)");
}

TEST(TieSizes, TheAxisThatIsJoinedIsNotTied) {
  const Tied t = tie(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[B,S] x, float[B,T] y) => (float[B,U] z) { z = Concat <axis = 1> (x, y) })");
  EXPECT_EQ(t.changes, 0U);
}

}  // namespace
}  // namespace attune
