#include "tests/infer/rows.h"

namespace attune {
namespace {

using test::check;

TEST(InferMovement, Reshape) {
  check({
      {"(float[b,n,512] x) => (y) <int64[4] shape = {0, 0, 8, 64}> { y = Reshape(x, shape) }", "float(b,n,8,64)"},
      {"(float[b,n,512] x) => (y) <int64[4] shape = {0, -1, 8, 64}> { y = Reshape(x, shape) }", "float(b,n,8,64)"},
      {"(float[a,n,512] x, int64[b,n] ids) => (y) <int64[1] heads = {8}, int64[1] width = {64}> { s = Shape(ids) t = "
       "Concat<axis = 0>(s, heads, width) y = Reshape(x, t) }",
       "float(a,n,8,64)"},
      {"(float[b,8,n,64] x) => (y) <int64[3] shape = {-1, 8, 64}> { y = Reshape(x, shape) }", "float(b*n,8,64)"},
      {"(float[b,n] x) => (y) <int64[1] shape = {-1}> { y = Reshape(x, shape) }", "float(b*n)"},
      {"(float[b,3] x) => (y) <int64[2] shape = {-1, 2}> { y = Reshape(x, shape) }", "float(b + floor((b)/(2)),2)"},
      {"(float[0,3] x) => (y) <int64[2] shape = {0, 3}> { y = Reshape<allowzero = 1>(x, shape) }", "float(0,3)"},
      {"(float[2,3] x) => (y) <int64[2] shape = {4, -1}> { y = Reshape(x, shape) }",
       "invalid: node of 'y' (Reshape): (2,3) can't be reshaped to (4,?)"},
      {"(float[2,3] x) => (y) <int64[1] shape = {5}> { y = Reshape(x, shape) }",
       "invalid: node of 'y' (Reshape): (2,3) can't be reshaped to (5)"},
      {"(float[2,3] x) => (y) <int64[3] shape = {0, 3, 0}> { y = Reshape(x, shape) }",
       "invalid: node of 'y' (Reshape): size 0 at axis 2 of an input of rank 2"},
      {"(float[2,3] x, int64[2] shape) => (y) { y = Reshape(x, shape) }", "float(?0,?1)"},
      {"(float[2,3] x, int64[k] shape) => (y) { y = Reshape(x, shape) }", "float(?)"},
  });
}

// (batch, -1, 8, 64) from Shape, Gather, Unsqueeze and Concat.
TEST(InferMovement, ReshapeToAComputedTarget) {
  check({{R"((float[b,n,512] x) => (y, target)
             <int64 i = {0}, int64[1] axis = {0}, int64[1] rest = {-1}, int64[1] heads = {8}, int64[1] width = {64}>
             { s = Shape(x) b = Gather(s, i) u = Unsqueeze(b, axis) target = Concat<axis = 0>(u, rest, heads, width)
               y = Reshape(x, target) })",
          "float(b,n,8,64); int64(4) [b,-1,8,64]"},
         // One size that isn't known follows from the others.
         {R"((float[b,n,512] x, int64[1] k) => (y) <int64[1] heads = {8}, int64[1] width = {64}>
             { bk = Shape<start = 0, end = 1>(x) target = Concat<axis = 0>(bk, k, heads, width) y = Reshape(x, target) })",
          "float(b,n,8,64)"}});
}

TEST(InferMovement, RanksChange) {
  check({
      {"(float[b,1,n] x) => (y) <int64[1] axes = {1}> { y = Squeeze(x, axes) }", "float(b,n)"},
      {"(float[2,1,3,1] x) => (y) { y = Squeeze(x) }", "float(2,3)"},
      {"(float[b,1] x) => (y) { y = Squeeze(x) }", "float(?)"},  // b may be 1
      {"(float[b,3] x) => (y) <int64[1] axes = {1}> { y = Squeeze(x, axes) }",
       "invalid: node of 'y' (Squeeze): size of squeezed axis 1 and 1 must agree: 3 and 1"},
      {"(float[b,n] x) => (y) { y = Squeeze<axes = [0]>(x) }", "float(n)", 11},
      {"(float[b,n] x) => (y) <int64[2] axes = {0, -1}> { y = Unsqueeze(x, axes) }", "float(1,b,n,1)"},
      {"(float[b,n] x) => (y) <int64[2] axes = {1, 1}> { y = Unsqueeze(x, axes) }",
       "invalid: node of 'y' (Unsqueeze): axis 1 is given twice"},
      {"(float[b,n] x) => (y) <int64[1] axes = {3}> { y = Unsqueeze(x, axes) }",
       "invalid: node of 'y' (Unsqueeze): axis 3 is outside [-3, 3)"},
      {"(float[b,n,4,5] x) => (y) { y = Flatten<axis = 2>(x) }", "float(b*n,20)"},
      {"(float[b,n,4] x) => (y) { y = Flatten<axis = -1>(x) }", "float(b*n,4)"},
  });
}

TEST(InferMovement, Transpose) {
  check({
      {"(float[b,n,8,64] x) => (y) { y = Transpose<perm = [0, 2, 1, 3]>(x) }", "float(b,8,n,64)"},
      {"(float[b,n] x) => (y) { y = Transpose(x) }", "float(n,b)"},
      {"(float[b,n] x) => (y) { y = Transpose<perm = [0, 0]>(x) }",
       "invalid: node of 'y' (Transpose): 'perm' has axis 0 twice"},
      {"(float[b,n] x) => (y) { y = Transpose<perm = [0, 1, 2]>(x) }",
       "invalid: node of 'y' (Transpose): 'perm' has 3 axes for rank 2"},
      {"(float[b,n] x) => (y) { y = Transpose<perm = [0, -1]>(x) }",
       "invalid: node of 'y' (Transpose): 'perm' has axis -1 among 2 axes"},
      {"(float x, int64[k] shape) => (y) { r = Reshape(x, shape) y = Transpose<perm = [-1, 0]>(r) }",
       "invalid: node of 'y' (Transpose): 'perm' has axis -1 among 2 axes"},
      {"() => (y) <int64[2,3] x = {1, 2, 3, 4, 5, 6}> { y = Transpose(x) }", "int64(3,2) [1,4,2,5,3,6]"},
  });
}

TEST(InferMovement, Concat) {
  check({
      {"(float[b,8,p,64] past, float[b,8,1,64] x) => (y) { y = Concat<axis = 2>(past, x) }", "float(b,8,p + 1,64)"},
      {"(float[b,n] x, float[2,m] z) => (y) { y = Concat<axis = -1>(x, z) }", "float(2,m + n)"},
      {"(float[2,n] x, float[3,n] z) => (y) { y = Concat<axis = 1>(x, z) }",
       "invalid: node of 'y' (Concat): sizes of axis 0 must agree: 2 and 3"},
      {"(float[2] x, float[2,1] z) => (y) { y = Concat<axis = 0>(x, z) }",
       "invalid: node of 'y' (Concat): ranks 1 and 2 can't be joined"},
      {"() => (y) <int64[2,1] x = {1, 2}, int64[2,2] z = {3, 4, 5, 6}> { y = Concat<axis = 1>(x, z) }",
       "int64(2,3) [1,3,4,2,5,6]"},
  });
}

TEST(InferMovement, Slice) {
  check({
      {"(float[b,n] x) => (y) <int64[1] s = {1}, int64[1] e = {9223372036854775807}, int64[1] a = {1}>"
       "{ y = Slice(x, s, e, a) }",
       "float(b,max(0,n - 1))"},
      {"(float[b,10] x) => (y) <int64[1] s = {-3}, int64[1] e = {2147483647}, int64[1] a = {1}> { y = Slice(x, s, e, "
       "a) }",
       "float(b,3)"},
      {"(float[b,10] x) => (y) <int64[1] s = {1}, int64[1] e = {-1}, int64[1] a = {-1}, int64[1] t = {3}>"
       "{ y = Slice(x, s, e, a, t) }",
       "float(b,3)"},
      {"(float[b,10] x) => (y) <int64[1] s = {-1}, int64[1] e = {-100}, int64[1] a = {1}, int64[1] t = {-2}>"
       "{ y = Slice(x, s, e, a, t) }",
       "float(b,5)"},
      {"(float[b,n] x) => (y) <int64[1] s = {-1}, int64[1] e = {-9223372036854775807}, int64[1] a = {1}, int64[1] t = "
       "{-1}>"
       "{ y = Slice(x, s, e, a, t) }",
       "float(b,n)"},
      {"(float[4,5] x) => (y) <int64[2] s = {3, 0}, int64[2] e = {1, 9}> { y = Slice(x, s, e) }", "float(0,5)"},
      {"(float[b,n] x, int64[1] s, int64[1] e) => (y) <int64[1] a = {1}> { y = Slice(x, s, e, a) }", "float(b,?0)"},
      {"(float[b,n] x, int64[1] s, int64[1] e, int64[1] a) => (y) { y = Slice(x, s, e, a) }", "float(?0,?1)"},
      {"(float[b,n] x) => (y) { y = Slice<starts = [0, 2], ends = [1, 5], axes = [0, 1]>(x) }",
       "float(min(1,b),max(0,min(5,n) - 2))", 9},
      {"(float[3] x) => (y) <int64[1] s = {0}, int64[1] e = {2}, int64[1] a = {0}, int64[1] t = {0}>"
       "{ y = Slice(x, s, e, a, t) }",
       "invalid: node of 'y' (Slice): a step of 0"},
      {"(float[3] x) => (y) <int64[1] s = {0}, int64[2] e = {2, 2}> { y = Slice(x, s, e) }",
       "invalid: node of 'y' (Slice): starts, ends, axes and steps have different lengths"},
      // The last of the shape; a causal mask cut to (past, past + n).
      {"(float[b,n,64] x) => (y) <int64[1] s = {-1}, int64[1] e = {9223372036854775807}>"
       "{ shape = Shape(x) y = Slice(shape, s, e) }",
       "int64(1) [64]"},
      {R"((float[b,8,p,64] past, float[b,8,n,64] x, bool[1,1,512,512] mask) => (y) <int64[1] i = {2}>
          { a = Shape(past) b = Shape(x) p = Gather(a, i) n = Gather(b, i) t = Add(p, n) y = Slice(mask, p, t, i) })",
       "bool(1,1,max(0,min(512,n + p) - p),512)"},
      // What T5 does: the last n of n + p.
      {R"((float[1,8,t,t] bias, float[b,8,n,64] x, float[b,8,p,64] past) => (y) <int64[1] i = {2}, int64[1] far = {9223372036854775807}>
          { a = Shape(x) b = Shape(past) n = Gather(a, i) p = Gather(b, i) k = Add(n, p) zero = Sub(n, n)
            long = Slice(bias, zero, k, i) m = Neg(n) y = Slice(x, m, far, i) })",
       "float(b,8,n,64)"},
  });
}

TEST(InferMovement, GatherAndScatter) {
  check({
      {"(float[1000,64] table, int64[b,n] ids) => (y) { y = Gather(table, ids) }", "float(b,n,64)"},
      {"(float[b,n,64] x) => (y) <int64 i = {-1}> { y = Gather<axis = 1>(x, i) }", "float(b,64)"},
      {"(float[b,n,64] x) => (y) <int64[1] i = {2}> { s = Shape(x) y = Gather(s, i) }", "int64(1) [64]"},
      {"(float[b,n,64] x) => (y) <int64 i = {3}> { s = Shape(x) y = Gather(s, i) }",
       "invalid: node of 'y' (Gather): index 3 is outside [-3, 3)"},
      {"(float[b,n] x, int64[b,k] i) => (y) { y = GatherElements<axis = 1>(x, i) }", "float(b,k)"},
      {"(float[b,n,64] x, int64[m,2] i) => (y) { y = GatherND(x, i) }", "float(m,64)"},
      {"(float[b,n,64] x, int64[b,m,1] i) => (y) { y = GatherND<batch_dims = 1>(x, i) }", "float(b,m,64)"},
      {"(float[b] x, int64[m,2] i) => (y) { y = GatherND(x, i) }",
       "invalid: node of 'y' (GatherND): indices of 2 axes for rank 1"},
      {"(float[b,n] x, int64[k,2] i, float[k] u) => (y) { y = ScatterND(x, i, u) }", "float(b,n)"},
  });
}

TEST(InferMovement, Repetition) {
  check({
      {"(float[b,1,64] x) => (y) <int64[4] shape = {2, 1, 5, 1}> { y = Expand(x, shape) }", "float(2,b,5,64)"},
      {"(float[1,n] x, int64[b] z) => (y) <int64[1] one = {1}> { s = Shape(z) t = Concat<axis = 0>(s, one) y = "
       "Expand(x, t) }",
       "float(b,n)"},
      {"() => (y) <int64[1,2] x = {1, 2}, int64[2] shape = {2, 1}> { y = Expand(x, shape) }", "int64(2,2) [1,2,1,2]"},
      {"(float[b,n] x) => (y) <int64[2] r = {2, 3}> { y = Tile(x, r) }", "float(2*b,3*n)"},
      {"() => (y) <int64[2] x = {1, 2}, int64[1] r = {2}> { y = Tile(x, r) }", "int64(4) [1,2,1,2]"},
      {"(float[b,n] x) => (y) <int64[1] r = {2}> { y = Tile(x, r) }",
       "invalid: node of 'y' (Tile): 1 repeats for rank 2"},
      {"(float[b,n] x) => (y) <int64[4] p = {0, 1, 0, 2}> { y = Pad(x, p) }", "float(b,n + 3)"},
      {"(float[b,n] x) => (y) <int64[2] p = {1, 1}, float z = {0}, int64[1] a = {-1}> { y = Pad(x, p, z, a) }",
       "float(b,n + 2)"},
  });
}

TEST(InferMovement, Split) {
  check({
      {"(float[b,n,192] x) => (q, k, v) { q, k, v = Split<axis = -1, num_outputs = 3>(x) }",
       "float(b,n,64); float(b,n,64); float(b,n,64)"},
      {"(float[7] x) => (p, q) { p, q = Split<num_outputs = 2>(x) }", "float(4); float(3)"},
      {"(float[b,9] x) => (p, q) <int64[2] s = {4, 5}> { p, q = Split<axis = 1>(x, s) }", "float(b,4); float(b,5)"},
      {"(float[b,9] x) => (p, q) { p, q = Split<axis = 1, split = [4, 5]>(x) }", "float(b,4); float(b,5)", 11},
      {"(float[b,n,64] x) => (p, q) <int64[2] s = {1, 2}> { t = Shape(x) p, q = Split(t, s) }",
       "int64(1) [b]; int64(2) [n,64]"},
      // Where a part begins isn't known after one of unknown size.
      {"(float[5,7,2] x, int64[1] k) => (p, q) <int64[1] two = {2}>"
       "{ s = Concat<axis = 0>(k, two) t = Shape(x) p, q = Split(t, s) }",
       "int64(?0); int64(2)"},
      {"(float[5] x) => (p, q, r, s) { p, q, r, s = Split<num_outputs = 4>(x) }",
       "float(2); float(2); float(1); float(0)"},
  });
}

}  // namespace
}  // namespace attune
