#include "tests/infer/rows.h"

namespace attune {
namespace {

using test::check;

TEST(InferElementwise, KeepsTypeAndShape) {
  check({
      {"(float[b,n,64] x) => (y) { y = Tanh(x) }", "float(b,n,64)"},
      {"(float16[b,n] x) => (y) { y = Softmax<axis = -1>(x) }", "float16(b,n)"},
      {"(float[b,n] x) => (y) { y = com.microsoft.FastGelu(x) }", "float(b,n)"},
      {"(int8[b,n] x, float s, int8 z) => (y) { y = com.microsoft.QLinearSoftmax(x, s, z, s, z) }", "int8(b,n)"},
      {"(uint8[b,1] x, uint8[n] y, float s, uint8 z) => (r) { r = com.microsoft.QLinearAdd(x, s, z, y, s, z, s, z) }",
       "uint8(b,n)"},
      {"(float[b,n] x) => (y) { y = IsNaN(x) }", "bool(b,n)"},
      {"(float[b,n] x) => (y) { y = Cast<to = 10>(x) }", "float16(b,n)"},
      {"(float[b,n] x, int32[3] like) => (y) { y = CastLike(x, like) }", "int32(b,n)"},
      {"(float[b,n] x) => (y, mask) { y, mask = Dropout(x) }", "float(b,n); bool(b,n)"},
      {"(float[b,n,n] x) => (y) { y = Trilu(x) }", "float(b,n,n)"},
      {"(float[b,n] x) => (y) <int64 axis = {1}> { y = CumSum(x, axis) }", "float(b,n)"},
  });
}

TEST(InferElementwise, BroadcastsSizes) {
  check({
      {"(float[b,1,64] x, float[n,1] z) => (y) { y = Add(x, z) }", "float(b,n,64)"},
      {"(float[b,n] x, float[b,n] z) => (y) { y = Mul(x, z) }", "float(b,n)"},
      {"(float[b,n] x, float[m,8] z) => (y) { y = Add(x, z) }", "float(?0,8)"},  // b may be 1, or m
      {"(float[n] x, float[0] z) => (y) { y = Add(x, z) }", "float(0)"},
      {"(float[3] x, float[4] z) => (y) { y = Add(x, z) }",
       "invalid: node of 'y' (Add): sizes 3 and 4 don't broadcast"},
      {"(float[3] x, int64[3] z) => (y) { y = Add(x, z) }",
       "invalid: node of 'y' (Add): inputs 0 and 1 have different element types: float and int64"},
      {"(float[b,n] x, float[1] z, float[b,1] w) => (y) { y = Max(x, z, w) }", "float(b,n)"},
      {"(bool[b,1,n] c, float[b,n,1] x, float z) => (y) { y = Where(c, x, z) }", "float(b,n,n)"},
      {"(float[b,n] x, float z) => (y) { y = Less(x, z) }", "bool(b,n)"},
      {"(float x, float z) => (y) { y = Pow(x, z) }", "float()"},
  });
}

TEST(InferElementwise, ASizeCutToALimitBroadcastsAsTheSize) {
  check({{R"((float[b,n,64] x, int64[b,n] ids, float[1,512,64] table) => (y)
             <int64[1] zero = {0}, int64[1] one = {1}>
             { shape = Shape(ids) length = Gather(shape, one) part = Slice(table, zero, length, one) y = Add(x, part) })",
          "float(b,n,64)"}});
}

TEST(InferElementwise, ComputesIntegers) {
  const auto apply = [](const std::string& expression) {
    return "(float[b,n,6] x) => (y) <int64 two = {2}, int64 minus = {-7}, int64 i0 = {0}, int64 i1 = {1}, int64 i2 = "
           "{2}>"
           "{ s = Shape(x) b = Gather(s, i0) n = Gather(s, i1) six = Gather(s, i2) y = " +
           expression + " }";
  };
  check({
      {apply("Add(b, n)"), "int64() [b + n]"},
      {apply("Sub(n, two)"), "int64() [n - 2]"},
      {apply("Mul(n, six)"), "int64() [6*n]"},
      {apply("Div(n, two)"), "int64() [floor((n)/(2))]"},
      {apply("Div(minus, two)"), "int64() [-3]"},  // towards zero
      {apply("Mod(minus, two)"), "int64() [1]"},   // the divisor's sign
      {apply("Mod<fmod = 1>(six, two)"), "int64() [0]"},
      {apply("Mod(six, two)"), "int64() [0]"},
      {apply("Neg(n)"), "int64() [-n]"},
      {apply("Abs(minus)"), "int64() [7]"},
      {apply("Abs(n)"), "int64() [n]"},
      {apply("Min(n, six)"), "int64() [min(6,n)]"},
      {apply("Max(n, minus)"), "int64() [n]"},
      {apply("Pow(six, two)"), "int64() [36]"},
      {apply("Sign(minus)"), "int64() [-1]"},
      {apply("Clip(n, two, six)"), "int64() [min(6,max(2,n))]"},
      {apply("Cast<to = 6>(n)"), "int32() [n]"},
      {apply("Cast<to = 1>(six)"), "float() [6]"},
      {apply("Cast<to = 9>(six)"), "bool() [1]"},
      {apply("Identity(b)"), "int64() [b]"},
  });
}

TEST(InferElementwise, TruthHasThreeValues) {
  const auto apply = [](const std::string& expression) {
    return "(float[b,n,6] x, bool unknown) => (y) <int64 minus = {-1}, int64 six = {6}, int64 i0 = {0}, int64 i1 = {1},"
           " int64 i2 = {2}, bool yes = {1}, bool no = {0}, int64 one = {1}>"
           "{ s = Shape(x) b = Gather(s, i0) n = Gather(s, i1) last = Gather(s, i2) n1 = Add(n, one) y = " +
           expression + " }";
  };
  check({
      {apply("Equal(last, six)"), "bool() [1]"},
      {apply("Equal(n, minus)"), "bool() [0]"},  // a size isn't negative
      {apply("Equal(n, n1)"), "bool() [0]"},
      {apply("Equal(n, six)"), "bool()"},
      {apply("Less(n, n1)"), "bool() [1]"},
      {apply("Greater(n, n1)"), "bool() [0]"},
      {apply("LessOrEqual(n1, n)"), "bool() [0]"},
      {apply("GreaterOrEqual(n, minus)"), "bool() [1]"},
      {apply("And(unknown, no)"), "bool() [0]"},
      {apply("And(unknown, yes)"), "bool()"},
      {apply("Or(unknown, yes)"), "bool() [1]"},
      {apply("Xor(yes, no)"), "bool() [1]"},
      {apply("Not(no)"), "bool() [1]"},
      {apply("Where(no, n, b)"), "int64() [b]"},
      {apply("Where(unknown, n, b)"), "int64()"},
      {apply("Where(unknown, n, n)"), "int64() [n]"},
  });
}

TEST(InferElementwise, ComputesScales) {
  check({
      // 1 / sqrt(width), as exporters write it: Shape, Gather, Cast, Sqrt, Div.
      {R"((float[b,8,n,64] q) => (y) <int64 last = {3}, float one = {1}>
          { s = Shape(q) e = Gather(s, last) f = Cast<to = 1>(e) r = Sqrt(f) y = Div(one, r) })",
       "float() [0.125]"},
      {"() => (y) <float x = {0.25}> { r = Sqrt(x) e = Exp(x) l = Log(e) s = Sub(r, l) y = Mul(s, x) }",
       "float() [0.0625]"},
      {"() => (y) <float x = {2.5}, float z = {-2.5}> { a = Floor(x) b = Ceil(z) c = Round(x) d = Add(a, b) y = Add(d, "
       "c) }",
       "float() [2]"},
      {"() => (y) <float x = {0.1}> { y = Cast<to = 10>(x) }", "float16() [0.0999756]"},
      {"() => (y) <float x = {-2.7}> { y = Cast<to = 7>(x) }", "int64() [-2]"},
      {"() => (y) <float x = {1e30}> { y = Cast<to = 7>(x) }", "int64()"},
      {"() => (y) <float x = {3}> { r = Reciprocal(x) t = Tanh(r) s = Sigmoid(t) e = Erf(s) y = Relu(e) }",
       "float() [0.587675]"},
  });
}

}  // namespace
}  // namespace attune
