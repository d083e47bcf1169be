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

// fairseq's keys: what is left of S C / B positions, where B are the queries' batch, is summed over as S of weights.
TEST(TieSizes, PositionsThatMeetInAProduct) {
  const auto values = [](const std::string& y, const std::string& weights, const std::string& product) {
    return tie("<ir_version: 8, opset_import: [\"\" : 17]> g (float[B,T,8] x, float" + y + " y, float" + weights +
               R"( w) => (float[P,Q,R] z)
      <int64[1] zero = {0}, int64[1] rest = {-1}, int64[1] two = {2}, int64[1] four = {4}>
      { sx = Shape (x)
        batch = Gather (sx, zero)
        heads = Mul (batch, two)
        target = Concat <axis = 0> (rest, heads, four)
        r = Reshape (y, target)
        )" + product +
               " }");
  };
  const std::string behind = "v = Transpose <perm = [1, 0, 2]> (r) z = MatMul (w, v)";
  const std::string front = "v = Transpose <perm = [1, 2, 0]> (r) z = MatMul (v, w)";
  EXPECT_EQ(values("[S,C,8]", "[H,T,S]", behind).y, "(S,B,8)");
  EXPECT_EQ(values("[S,C,8]", "[H,S,T]", front).y, "(S,B,8)");
  EXPECT_EQ(values("[S,C,8]", "[H,T,U]", behind).changes, 0U) << "another number of positions";
  EXPECT_EQ(values("[S,C,8]", "[H,T,S]", "v = Transpose <perm = [1, 0, 2]> (r) z = Neg (v)").changes, 0U);
  EXPECT_EQ(values("[S,C,8]", "[S,T,4]", "v = Transpose <perm = [0, 2, 1]> (r) z = MatMul (w, v)").changes, 0U)
      << "matrices of which there may be one";
  EXPECT_EQ(values("[4,C,8]", "[4,4]", "v = Transpose <perm = [0, 2, 1]> (r) z = MatMul (w, v)").changes, 0U)
      << "one matrix for all";
  EXPECT_EQ(values("[4,C,8]", "[H,T,4]", "v = Transpose <perm = [1, 2, 0]> (r) z = MatMul (w, v)").changes, 0U)
      << "columns";
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

// The memory's batch under a name of its own, where both fold heads into batches: twice something isn't broadcast.
TEST(TieSizes, FoldedHeadsThatMeetInAProduct) {
  const auto product = [](const std::string& x, const std::string& y) {
    return tie("<ir_version: 8, opset_import: [\"\" : 17]> g (float" + x + " x, float" + y +
               R"( y) => (float[P,Q,R] z)
      <int64[3] heads = {0, -1, 4}>
      { q = Reshape (x, heads)
        k = Reshape (y, heads)
        qt = Transpose <perm = [1, 0, 2]> (q)
        kt = Transpose <perm = [1, 2, 0]> (k)
        z = MatMul (qt, kt) })");
  };
  EXPECT_EQ(product("[T,B,8]", "[S,C,8]").y, "(S,B,8)");
  EXPECT_EQ(product("[T,B,8]", "[S,3,8]").x, "(T,3,8)");
  EXPECT_EQ(product("[T,B,8]", "[S,C,12]").changes, 0U) << "2 B = 3 C determines no size";
  EXPECT_EQ(product("[T,B,8]", "[S,C,4]").changes, 0U) << "C may be 1";
  EXPECT_EQ(product("[T,B,4]", "[S,C,8]").changes, 0U) << "B may be 1";
}

// Sums may be 1, and quotients.
TEST(TieSizes, OtherNumbersOfMatricesAreNotTied) {
  const auto product = [](const std::string& number, const std::string& matrices) {
    return tie("<ir_version: 8, opset_import: [\"\" : 17]> g (float[B,5,4] x, float[" + number +
               R"(,4,S] y) => (float[P,Q,R] z)
      <float[1,1,4] one = {1, 2, 3, 4}, int64[3] rows = {1, 5, 1}, int64[1] zero = {0}, int64[1] two = {2},
       int64[1] end = {1000}>
      { )" + matrices +
               " z = MatMul (a, y) }");
  };
  EXPECT_EQ(product("6", "a = Concat <axis = 0> (x, x)").x, "(3,5,4)") << "2 B can't be 1";
  EXPECT_EQ(product("7", "o = Expand (one, rows) a = Concat <axis = 0> (x, x, o)").changes, 0U);
  EXPECT_EQ(product("6", "h = Slice (x, zero, end, zero, two) a = Concat <axis = 0> (h, h)").changes, 0U);
}

TEST(TieSizes, ProductsWithVectors) {
  const auto product = [](const std::string& x, const std::string& y) {
    return tie("<ir_version: 8, opset_import: [\"\" : 17]> g (float" + x + " x, float" + y +
               " y) => (float[P] z) { z = MatMul (x, y) }");
  };
  EXPECT_EQ(product("[B,T]", "[S]").y, "(T)");
  EXPECT_EQ(product("[S]", "[T,N]").y, "(S,N)");
}

// Sizes that no caller can meet say nothing.
TEST(TieSizes, SizesThatCannotBe) {
  const auto product = [](const std::string& y) {
    return tie(R"(<ir_version: 8, opset_import: ["" : 17]> g (float[B,P] x, float)" + y + R"( y) => (float[Q,R] z)
      <float[1,4] more = {1, 2, 3, 4}, int64[2] rows = {3, 4}>
      { a = Concat <axis = 1> (x, x)
        z = MatMul (a, y) })");
  };
  EXPECT_EQ(product("[6,N]").x, "(B,3)");
  EXPECT_EQ(product("[5,N]").changes, 0U) << "2 P = 5";
  const Tied t = tie(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[B,P] x, float[1,N] y, float[B,4] four) => (float[Q,R] z)
    { a = Concat <axis = 1> (x, four)
      z = MatMul (a, y) })");
  EXPECT_EQ(t.changes, 0U) << "P + 4 = 1";
}

TEST(TieSizes, Sums) {
  const Tied product = tie(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[B,P] x, float[R,N] y, float[B,1] one) => (float[B,N] z)
    { a = Concat <axis = 1> (x, one)
      z = MatMul (a, y) })");
  EXPECT_EQ(product.changes, 0U) << "P + 1 = R";
  const Tied reshape = tie(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[P,8] x, float[R,8] y, float[1,8] one) => (float[R,8] z)
    { a = Concat <axis = 0> (x, one)
      sizes = Shape (y)
      z = Reshape (a, sizes) })");
  EXPECT_EQ(reshape.changes, 0U) << "8 P + 8 = 8 R";
}

// What the graph counts at run time is no size of an input.
TEST(TieSizes, SizesThatNoInputHas) {
  const Tied t = tie(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[B,4] x, float[C,2] y) => (float[P,4] z) <int64[1] four = {4}>
    { n = NonZero (y)
      count = Shape <start = 1> (n)
      sizes = Concat <axis = 0> (count, four)
      z = Reshape (x, sizes) })");
  EXPECT_EQ(t.changes, 0U);
}

TEST(TieSizes, InputsOfUnknownRank) {
  Model model = parse_model(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float x, float[B,T] y, float[5,N] w) => (float[2,4] z, float[B,N] v) <int64[2] sizes = {2, 4}>
    { z = Reshape (x, sizes) v = MatMul (y, w) })");
  model.graph->inputs()[0]->set_type(ValueType::of(DataType::kFloat, std::nullopt));
  Report report;
  PassContext context{model, report, {}};
  EXPECT_EQ(tie_sizes(context), 1U);
}

// A Transpose without `perm` turns all axes around: 4 queries' heads say nothing of the third axis.
TEST(TieSizes, TransposesWithoutPermutation) {
  const Tied t = tie(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[B] x, float[C,S,16] y, float[4,2,T,S] q) => (float[P,Q,R,U] z)
    <int64[1] rest = {-1}, int64[1] four = {4}>
    { batch = Shape (x)
      length = Shape <start = 1, end = 2> (y)
      target = Concat <axis = 0> (batch, length, rest, four)
      r = Reshape (y, target)
      k = Transpose (r)
      z = MatMul (q, k) })");
  EXPECT_EQ(t.y, "(C,S,16)");
}

TEST(TieSizes, TheAxisThatIsJoinedIsNotTied) {
  const Tied t = tie(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[B,S] x, float[B,T] y) => (float[B,U] z) { z = Concat <axis = 1> (x, y) })");
  EXPECT_EQ(t.changes, 0U);
}

}  // namespace
}  // namespace attune
