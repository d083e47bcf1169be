// Products, convolutions, reductions, normalisation, recurrent cells and generators.
#include "tests/infer/rows.h"

namespace attune {
namespace {

using test::check;

TEST(InferProducts, MatMul) {
  check({
      {"(float[b,8,n,64] q, float[b,8,64,m] k) => (y) { y = MatMul(q, k) }", "float(b,8,n,m)"},
      {"(float[b,n,64] x, float[64,32] w) => (y) { y = MatMul(x, w) }", "float(b,n,32)"},
      {"(float[64] x, float[b,64,n] w) => (y) { y = MatMul(x, w) }", "float(b,n)"},
      {"(float[b,n,64] x, float[64] w) => (y) { y = MatMul(x, w) }", "float(b,n)"},
      {"(float[64] x, float[64] w) => (y) { y = MatMul(x, w) }", "float()"},
      {"(float[b,3] x, float[4,2] w) => (y) { y = MatMul(x, w) }",
       "invalid: node of 'y' (MatMul): inner sizes must agree: 3 and 4"},
      {"(float x, float[4,2] w) => (y) { y = MatMul(x, w) }", "invalid: node of 'y' (MatMul): a product of scalars"},
      {"(uint8[b,n,64] x, int8[64,32] w) => (y) { y = MatMulInteger(x, w) }", "int32(b,n,32)"},
      {"(float[k,b] x, float[n,k] w) => (y) { y = Gemm<transA = 1, transB = 1>(x, w) }", "float(b,n)"},
      {"(float[b,8] x, float[9,2] w) => (y) { y = Gemm(x, w) }",
       "invalid: node of 'y' (Gemm): inner sizes must agree: 8 and 9"},
      {"(float[b,n,64] x, float[b,m,64] w) => (y) { y = com.microsoft.FusedMatMul<transB = 1>(x, w) }", "float(b,n,m)"},
      {"(float[n,b,64] x, float[m,b,64] w) => (y) { y = com.microsoft.FusedMatMul<transBatchA = 1, transBatchB = 1, "
       "transB = 1>(x, w) }",
       "float(b,n,m)"},
      {"(float[b,n,64] x, uint8[32,4,8] w, float[128] s) => (y) "
       "{ y = com.microsoft.MatMulNBits<K = 64, N = 32, bits = 4, block_size = 16>(x, w, s) }",
       "float(b,n,32)"},
      {"(uint8[n,64] x, float s, uint8 z, int8[32,64] w) => (y, q) "
       "{ y = com.microsoft.QGemm<transB = 1>(x, s, z, w, s, z) "
       "q = com.microsoft.QGemm<transB = 1>(x, s, z, w, s, z, , s, z) }",
       "float(n,32); uint8(n,32)"},
      {"(float[b,n,64] x, float[64,32] w) => (y) { y = ai.attune.Linear(x, w) }", "float(b,n,32)"},
      {"(float[b,n,64] x, float[32,64] w) => (y) { y = ai.attune.Linear<transposed = 1>(x, w) }", "float(b,n,32)"},
  });
}

// The unknown size that a product needs to be 64 is 64 where it came from, too.
TEST(InferProducts, InnerSizesTellUnknownSizes) {
  check({{R"((float[b,64] x, int64[2] shape, float[64,8] w) => (h, y) { h = Reshape(x, shape) y = MatMul(h, w) })",
          "float(?0,64); float(?0,8)"}});
}

TEST(InferProducts, Einsum) {
  check({
      {"(float[b,n,8,64] q, float[b,m,8,64] k) => (y) { y = Einsum<equation = \"bqhd,bkhd->bhqk\">(q, k) }",
       "float(b,8,n,m)"},
      {"(float[b,n,64] x, float[64,m] w) => (y) { y = Einsum<equation = \"...i,ij->...j\">(x, w) }", "float(b,n,m)"},
      {"(float[n,m] x, float[m,k] w) => (y) { y = Einsum<equation = \"ij,jk\">(x, w) }", "float(n,k)"},
      {"(float[n,n] x) => (y) { y = Einsum<equation = \"ii->\">(x) }", "float()"},
      {"(float[n,m] x) => (y) { y = Einsum<equation = \"ijk->i\">(x) }",
       "invalid: node of 'y' (Einsum): input 0 of rank 2 for a term of 3 letters"},
      {"(float[n,m] x) => (y) { y = Einsum<equation = \"ij,j->i\">(x) }",
       "invalid: node of 'y' (Einsum): 2 terms for 1 inputs"},
      {"(float[n,m] x) => (y) { y = Einsum<equation = \"i1->i\">(x) }",
       "invalid: node of 'y' (Einsum): character '1' in the equation"},
  });
}

TEST(InferProducts, Convolution) {
  check({
      {"(float[b,80,n] x, float[48,80,3] w) => (y) { y = Conv<pads = [1, 1]>(x, w) }", "float(b,48,n)"},
      {"(float[b,48,n] x, float[48,48,3] w) => (y) { y = Conv<pads = [1, 1], strides = [2]>(x, w) }",
       "float(b,48,floor((n + 1)/(2)))"},
      {"(float[b,3,224,224] x, float[32,3,16,16] w) => (y) { y = Conv<strides = [16, 16]>(x, w) }",
       "float(b,32,14,14)"},
      {"(float[b,8,n] x, float[8,1,5] w) => (y) { y = Conv<group = 8, dilations = [2], auto_pad = \"VALID\">(x, w) }",
       "float(b,8,n - 8)"},
      {"(float[b,8,7] x, float[8,8,5] w) => (y) { y = Conv<strides = [2], auto_pad = \"SAME_UPPER\">(x, w) }",
       "float(b,8,4)"},
      {"(float[b,4,n] x, float[8,8,5] w) => (y) { y = Conv(x, w) }",
       "invalid: node of 'y' (Conv): channels must agree: 4 and 8"},
      {"(float[b,8,7] x) => (y) { y = MaxPool<kernel_shape = [3], strides = [2], ceil_mode = 1>(x) }", "float(b,8,3)"},
      {"(float[b,8,n] x) => (y) { y = AveragePool<kernel_shape = [2], strides = [2]>(x) }",
       "float(b,8,floor((n)/(2)))"},
      {"(float[b,8,n] x) => (y) { y = GlobalAveragePool(x) }", "float(b,8,1)"},
  });
}

TEST(InferProducts, Reductions) {
  check({
      {"(float[b,n,64] x) => (y) { y = ReduceMean<axes = [-1]>(x) }", "float(b,n,1)", 17},
      {"(float[b,n,64] x) => (y) <int64[1] a = {-1}> { y = ReduceMean<keepdims = 0>(x, a) }", "float(b,n)"},
      {"(float[b,n,64] x) => (y) { y = ReduceSum<keepdims = 0>(x) }", "float()"},
      {"(float[b,n] x) => (y) { y = ReduceMax<noop_with_empty_axes = 1>(x) }", "float(b,n)"},
      {"(float[b,n] x, int64[1] a) => (y) { y = ReduceSum(x, a) }", "float(?0,?1)"},
      {"(float[b,n,64] x) => (y) <int64[1] a = {3}> { y = ReduceSum(x, a) }",
       "invalid: node of 'y' (ReduceSum): axis 3 is outside [-3, 3)"},
      {"(float[b,n,64] x) => (y) { s = Shape(x) y = ReduceProd<keepdims = 0>(s) }", "int64() [64*b*n]"},
      {"() => (y) <int64[2,2] x = {1, 7, 3, 4}, int64[1] a = {1}> { y = ReduceMax(x, a) }", "int64(2,1) [7,4]"},
      {"(float[b,n] x) => (y) { y = ArgMax<axis = -1, keepdims = 0>(x) }", "int64(b)"},
      {"(float[b,n] x) => (y, i) <int64[1] k = {5}> { y, i = TopK(x, k) }", "float(b,5); int64(b,5)"},
      {"(float[b,n,2] x) => (y) { y = NonZero(x) }", "int64(3,?0)"},
  });
}

TEST(InferProducts, Normalization) {
  check({
      {"(float[b,n,64] x, float[64] s) => (y, m, d) { y, m, d = LayerNormalization(x, s) }",
       "float(b,n,64); float(b,n,1); float(b,n,1)"},
      {"(float[b,n,64] x, float[b,n,64] r, float[64] s) => (y, h) { y, , , h = com.microsoft.SkipLayerNormalization(x, "
       "r, s) }",
       "float(b,n,64); float(b,n,64)"},
      {"(float16[b,n,64] x, float16[b,n,64] r, float16[64] s) => (y, h) { y, h = ai.attune.ResidualNormalization(x, r, "
       "s) }",
       "float16(b,n,64); float16(b,n,64)"},
      {"(float[b,n] x) => (q, s, z) { q, s, z = DynamicQuantizeLinear(x) }", "uint8(b,n); float(); uint8()"},
      {"(float[b,n] x, float s, int8 z) => (y) { y = QuantizeLinear(x, s, z) }", "int8(b,n)"},
      {"(int8[b,n] x, float16 s) => (y) { y = DequantizeLinear(x, s) }", "float16(b,n)"},
      {"(int32[b,n] ids, int32[b,n] kind, float[1000,64] words) => (y) { y = "
       "com.microsoft.EmbedLayerNormalization(ids, kind, words) }",
       "float(b,n,64)"},
  });
}

TEST(InferProducts, Recurrent) {
  check({
      {"(float[n,b,32] x, float[1,192,32] w, float[1,192,64] r) => (y, h) { y, h = GRU<hidden_size = 64>(x, w, r) }",
       "float(n,1,b,64); float(1,b,64)"},
      {"(float[n,b,32] x, float[2,256,32] w, float[2,256,64] r) => (y, h, c) { y, h, c = LSTM<direction = "
       "\"bidirectional\">(x, w, r) }",
       "float(n,2,b,64); float(2,b,64); float(2,b,64)"},
      {"(float[b,n,32] x, float[1,64,32] w, float[1,64,64] r) => (y, h) { y, h = RNN<layout = 1>(x, w, r) }",
       "float(b,n,1,64); float(b,1,64)"},
      {"(float[n,b,32] x, float[1,192,32] w, float[1,192,64] r) => (y) { y = GRU<direction = \"bidirectional\">(x, w, "
       "r) }",
       "invalid: node of 'y' (GRU): directions and the first size of W must agree: 1 and 2"},
      {"(float[n,b,32] x, float[1,192,32] w, float[1,192,64] r, float[1,b,2] s) => (y) { y = GRU<hidden_size = 64>(x, "
       "w, r, , , s) }",
       "invalid: node of 'y' (GRU): widths of node and state must agree: 2 and 64"},
      {"(float[n,b,32] x, float[1,256,32] w, float[1,256,64] r, float[2,b,64] s) => (y) { y = LSTM(x, w, r, , , , s) }",
       "invalid: node of 'y' (LSTM): directions of node and state must agree: 2 and 1"},
  });
}

TEST(InferProducts, Generators) {
  check({
      {"(float[b,n,64] x) => (y) { y = Shape(x) }", "int64(3) [b,n,64]"},
      {"(float[b,n,64] x) => (y) { y = Shape<start = -2, end = 9>(x) }", "int64(2) [n,64]"},
      {"(float[b,n,64] x) => (y) { y = Size(x) }", "int64() [64*b*n]"},
      {"() => (y) { y = Constant<value_ints = [1, 2]>() }", "int64(2) [1,2]"},
      {"() => (y) { y = Constant<value_float = 0.5>() }", "float() [0.5]"},
      {"(float[b,n] x) => (y) { s = Shape(x) y = ConstantOfShape<value = int64[1] {7}>(s) }", "int64(b,n)"},
      {"() => (y) <int64[1] s = {2}> { y = ConstantOfShape(s) }", "float(2) [0,0]"},
      {"() => (y) <int64[1] s = {-2}> { y = ConstantOfShape(s) }",
       "invalid: node of 'y' (ConstantOfShape): input 0: a size of -2"},
      {"(float[b,n] x) => (y) <int64 i = {1}, int64 zero = {0}, int64 one = {1}> { s = Shape(x) n = Gather(s, i) y = "
       "Range(zero, n, one) }",
       "int64(n)"},
      {"() => (y) <int64 a = {10}, int64 l = {3}, int64 d = {-3}> { y = Range(a, l, d) }", "int64(3) [10,7,4]"},
      {"() => (y) <float a = {0}, float l = {1}, float d = {0.3}> { y = Range(a, l, d) }", "float(4)"},
      {"() => (y) <int64 a = {1}, int64 l = {3}, int64 d = {0}> { y = Range(a, l, d) }",
       "invalid: node of 'y' (Range): a delta of 0"},
  });
}

// The shapes of ONNX's reference, where its schema's rule differs.
TEST(InferProducts, FramesOfASpectrum) {
  check({
      {"(float[2,8,1] x) => (y) <int64 step = {2}, int64 n = {4}> { y = STFT(x, step, , n) }", "float(2,3,3,2)"},
      {"(float[b,7,1] x, float[4] w) => (y) <int64 step = {3}> { y = STFT<onesided = 0>(x, step, w) }",
       "float(b,2,4,2)"},
      {"(float[b,n,1] x, float[4] w, int64 step) => (y) { y = STFT(x, step, w) }", "float(b,?0,3,2)"},
      {"(float[2,8,1] x) => (y) <int64 step = {0}, int64 n = {4}> { y = STFT(x, step, , n) }",
       "invalid: node of 'y' (STFT): a step of 0"},
  });
}

TEST(InferProducts, OperatorsWithoutARuleGoByTheirSchema) {
  check({
      {"(float[b,4,n,m] x) => (y) { y = DepthToSpace<blocksize = 2>(x) }", "float(b,1,?0,?1)"},
      {"(int64[b,n] i) => (y) <int64 d = {10}, float[2] v = {0, 1}> { y = OneHot(i, d, v) }", "float(b,n,10)"},
      {"(float[b,3,8,8] x, float[6] s) => (y) { y = com.unknown.Thing(x, s) }", "unknown"},
  });
}

}  // namespace
}  // namespace attune
