#include "tests/infer/rows.h"

namespace attune {
namespace {

using test::check;

TEST(InferAttention, Attune) {
  check({
      {"(float[b,n,512] x, float[512,512] w) => (y, k, v, a)"
       "{ y, k, v, a = ai.attune.Attention<num_heads = 8>(x, , , w, w, w) }",
       "float(b,n,512); float(b,8,n,64); float(b,8,n,64); float(b,8,n,n)"},
      {"(float[b,n,96] x, float[b,m,80] s, float[96,64] wq, float[80,32] wk, float[80,48] wv) => (y, k, v, a)"
       "{ y, k, v, a = ai.attune.Attention<num_heads = 8, num_kv_heads = 4>(x, s, , wq, wk, wv) }",
       "float(b,n,96); float(b,4,m,8); float(b,4,m,12); float(b,8,n,m)"},
      {"(float[b,8,n,64] q, float[b,8,n,64] k, float[b,8,n,64] v, float[b,8,p,64] past) => (y, pk, a)"
       "{ y, pk, , a = ai.attune.Attention<weights_output = \"head_mean\">(q, k, v, , , , , , , , , past, past) }",
       "float(b,8,n,64); float(b,8,n + p,64); float(b,1,n,n + p)"},
      {"(float[b,1,64] q, float[b,m,64] s) => (y, p)"
       "{ y, , , , p = ai.attune.Attention<score = \"dot\", alignment = \"monotonic\">(q, s) }",
       "float(b,1,64); int64(b,1)"},
      {"(float[b,n] q) => (y) { y = ai.attune.Attention(q) }",
       "invalid: node of 'y' (ai.attune.Attention): input 0: expected rank 3 or 4, got rank 2"},
      {"(float[b,n,8] q) => (y) { y = ai.attune.Attention<num_heads = 0>(q) }",
       "invalid: node of 'y' (ai.attune.Attention): attribute 'num_heads' is 0"},
      {"(float[32,8] t, float[b,n] x) => (y) <int64 i = {1}, int64 one = {1}, int64 zero = {0}>"
       "{ s = Shape(x) n = Gather(s, i) y = ai.attune.RelativePositionBias(t, one, n, zero) }",
       "float(1,8,1,n)"},
      {"(float[b,n,8] x, float[32,8] t) => (y) { y = ai.attune.PositionEmbedding(x, t) }", "float(b,n,8)"},
  });
}

TEST(InferAttention, Standard) {
  check({
      {"(float[b,8,n,64] q, float[b,2,m,64] k, float[b,2,m,48] v) => (y) { y = Attention(q, k, v) }", "float(b,8,n,48)",
       23},
      {"(float[b,n,512] q, float[b,m,512] k, float[b,m,256] v, float[b,8,p,64] pk, float[b,8,p,32] pv) => (y, k2, v2, "
       "a)"
       "{ y, k2, v2, a = Attention<q_num_heads = 8, kv_num_heads = 8>(q, k, v, , pk, pv) }",
       "float(b,n,256); float(b,8,m + p,64); float(b,8,m + p,32); float(b,8,n,m + p)", 23},
  });
}

TEST(InferAttention, Microsoft) {
  check({
      {"(float[b,n,64] x, float[64,192] w, float[192] c, float[2,b,4,p,16] past) => (y, pkv)"
       "{ y, pkv = com.microsoft.Attention<num_heads = 4>(x, w, c, , past) }",
       "float(b,n,64); float(2,b,4,n + p,16)"},
      {"(float[b,n,64] x, float[64,160] w) => (y)"
       "{ y = com.microsoft.Attention<num_heads = 4, qkv_hidden_sizes = [64, 64, 32]>(x, w) }",
       "float(b,n,32)"},
      {"(float[b,n,64] q, float[b,4,m,16] k, float[b,4,m,16] v) => (y)"
       "{ y = com.microsoft.MultiHeadAttention<num_heads = 4>(q, k, v) }",
       "float(b,n,64)"},
      {"(float[b,n,64] q, float[b,4,p,16] pk) => (y, k, v)"
       "{ y, k, v = com.microsoft.MultiHeadAttention<num_heads = 4>(q, q, q, , , , pk, pk) }",
       "float(b,n,64); float(b,4,n + p,16); float(b,4,n + p,16)"},
      {"(float[b,n,4,3,16] qkv) => (y) { y = com.microsoft.MultiHeadAttention<num_heads = 4>(qkv) }", "float(b,n,64)"},
      {"(float[b,n,64] q, float[b,n,32] k, float[b,2,64,16] past, int32[b] lengths, int32 total) => (y, pk)"
       "{ y, pk = com.microsoft.GroupQueryAttention<num_heads = 4, kv_num_heads = 2>(q, k, k, past, past, lengths, "
       "total) }",
       "float(b,n,64); float(b,2,?0,16)"},
      {"(float[32,8] t, float[b,n] x) => (y) <int64 i = {1}>"
       "{ s = Shape(x) n = Gather(s, i) y = com.microsoft.RelativePositionBias<max_distance = 128>(t, n, n) }",
       "float(1,8,n,n)"},
  });
}

}  // namespace
}  // namespace attune
