// A node of each operator that works: its inputs (sizes that mean different things differ) and their values where they
// matter.
#pragma once

#include <string>
#include <vector>

namespace attune::testing {

struct EdgeRow {
  std::string graph;  // ONNX's text after the name
  int opset = 25;
  friend void PrintTo(const EdgeRow& row, std::ostream* out) { *out << row.graph; }
};

inline std::vector<EdgeRow> edge_rows() {
  std::vector<EdgeRow> rows{
      {"(float[2,3] x) => (y) { y = ArgMax<axis = 1>(x) }"},
      {"(float[2,3] x) => (y) { y = ArgMin(x) }"},
      {"(float[2,4,5,6] q, float[2,4,7,6] k, float[2,4,7,3] v, float[5,7] m) => (y) { y = Attention(q, k, v, m) }"},
      {"(float[2,3,5,4] x) => (y) { y = AveragePool<kernel_shape = [2, 2], pads = [1, 0, 0, 1]>(x) }"},
      {"(float[2,3,4] x, float[3] s, float[3] b, float[3] m, float[3] v) => (y) { y = BatchNormalization(x, s, b, m, "
       "v) }"},
      {"(float[2,3,4] x, float[3] s, float[3] b, float[3] m, float[3] v) => (y, n, w)"
       "{ y, n, w = BatchNormalization<training_mode = 1>(x, s, b, m, v) }"},
      {"(float[2,3] x) => (y) { y = Bernoulli(x) }"},
      {"(float[2,3] x) => (y) { y = BitCast<to = 6>(x) }", 26},
      {"(uint8[2,3] x, uint8[3] n) => (y) { y = BitShift<direction = \"LEFT\">(x, n) }"},
      {"(float[2,3] x) => (y) { y = Cast<to = 7>(x) }"},
      {"(float[2,3] x, int32[4] l) => (y) { y = CastLike(x, l) }"},
      {"(float[2,3] x, float low, float high) => (y) { y = Clip(x, low, high) }"},
      {"(float[2,8,6] x) => (y) <int64[2] image = {4, 3}, int64[2] block = {2, 2}> { y = Col2Im(x, image, block) }",
       18},
      {"(float[2,3] x, bool[3] c) => (y) { y = Compress<axis = 1>(x, c) }"},
      {"(float[2,3] x, bool[3] c) => (y) { y = Compress(x, c) }"},
      {"(float[2,3] x, float[2,4] z) => (y) { y = Concat<axis = 1>(x, z) }"},
      {"() => (y) <int64[2] s = {2, 3}> { y = ConstantOfShape(s) }"},
      {"(float[2,4,5] x, float[6,2,3] w, float[6] b) => (y) { y = Conv<group = 2>(x, w, b) }"},
      {"(float[2,3,5,4] x, float[6,3,2,2] w) => (y) { y = Conv(x, w) }"},
      {"(uint8[2,4,5] x, uint8[6,2,3] w, uint8 a, uint8[6] b) => (y) { y = ConvInteger<group = 2>(x, w, a, b) }"},
      {"(float[2,4,5] x, float[4,3,2] w, float[6] b) => (y) { y = ConvTranspose<group = 2, strides = [2]>(x, w, b) }"},
      {"(float[2,3] x) => (y) <int64 axis = {1}> { y = CumSum(x, axis) }"},
      {"(float[2,3] x) => (y) <int64 axis = {1}> { y = CumProd(x, axis) }", 26},
      {"(float[2,5,1] x) => (y) <int64 n = {4}, int64 axis = {1}> { y = DFT(x, n, axis) }", 20},
      {"(float[2,3,5,4] x, float[6,3,2,2] w, float[2,8,4,3] o, float[6] b, float[2,4,4,3] m) => (y)"
       "{ y = DeformConv(x, w, o, b, m) }"},
      {"(float[2,8,3,5] x) => (y) { y = DepthToSpace<blocksize = 2>(x) }"},
      {"(float[2,3,4,6] x) => (y) { y = SpaceToDepth<blocksize = 2>(x) }"},
      {"(uint8[2,3] x, float[3] s, uint8[3] z) => (y) { y = DequantizeLinear(x, s, z) }"},
      {"(int4[2,6] x, float[2,3] s, int4[2,3] z) => (y) { y = DequantizeLinear<block_size = 2>(x, s, z) }"},
      {"(float[2,3,3] x) => (y) { y = Det(x) }"},
      {"(float[2,3] x) => (y, m) { y, m = Dropout(x) }"},
      {"(float[2,3] x) => (y, s, z) { y, s, z = DynamicQuantizeLinear(x) }"},
      {"(float[2,3,4] a, float[2,4,5] b) => (y) { y = Einsum<equation = \"bij,bjk->bik\">(a, b) }"},
      {"(float[3,3] a, float[3] b, float[4] c) => (y) { y = Einsum<equation = \"ii,i,k->k\">(a, b, c) }"},
      {"(float[2,1] x) => (y) <int64[3] s = {4, 1, 3}> { y = Expand(x, s) }"},
      {"(float[2,3] x) => (y) { y = EyeLike(x) }"},
      {"(float[2,3,4] x) => (y) { y = Flatten<axis = 2>(x) }"},
      {"(float[5,2,3] x, float[1,12,3] w, float[1,12,4] r, float[1,24] b, int32[2] l, float[1,2,4] h) => (y, s)"
       "{ y, s = GRU<hidden_size = 4>(x, w, r, b, l, h) }"},
      {"(float[5,2,3] x, float[1,16,3] w, float[1,16,4] r, float[1,32] b, int32[2] l, float[1,2,4] h, float[1,2,4] c,"
       "float[1,12] p) => (y, s, t) { y, s, t = LSTM<hidden_size = 4>(x, w, r, b, l, h, c, p) }"},
      {"(float[5,2,3] x, float[1,4,3] w, float[1,4,4] r, float[1,8] b) => (y, s) { y, s = RNN(x, w, r, b) }"},
      {"(float[5,2,3] x, float[1,4,3] w, float[1,4,4] r) => (y, s) { y, s = RNN(x, w, r) }"},
      {"(float[4,3] x, int64[2,5] i) => (y) { y = Gather(x, i) }"},
      {"(float[4,3] x, int64[2,3] i) => (y) { y = GatherElements(x, i) }"},
      {"(float[4,5,3] x, int64[6,2] i) => (y) { y = GatherND(x, i) }"},
      {"(float[2,3] a, float[3,4] b, float[4] c) => (y) { y = Gemm<alpha = 0.5>(a, b, c) }"},
      {"(float[3,2] a, float[4,3] b, float[2,1] c) => (y) { y = Gemm<transA = 1, transB = 1>(a, b, c) }"},
      {"(float[2,3,4] x) => (y) { y = GlobalAveragePool(x) }"},
      {"(float[2,3,4] x) => (y) { y = GlobalLpPool(x) }"},
      {"(float[2,3,4] x) => (y) { y = GlobalMaxPool(x) }"},
      {"(float[2,3,5,4] x, float[2,6,7,2] g) => (y) { y = GridSample(x, g) }"},
      {"(float[2,6,5] x, float[6] s, float[6] b) => (y) { y = GroupNormalization<num_groups = 3>(x, s, b) }"},
      {"(float[2,3,4] x, float[3] s, float[3] b) => (y) { y = InstanceNormalization(x, s, b) }"},
      {"(float[2,3,4] x) => (y) { y = LRN<size = 3>(x) }"},
      {"(float[2,3,4] x, float[4] s, float[4] b) => (y, m, d) { y, m, d = LayerNormalization(x, s, b) }"},
      {"(float[2,3,4] x, float[3,4] s) => (y) { y = LayerNormalization<axis = 1>(x, s) }"},
      {"(float[2,3,4] x, float[4] s) => (y, m) { y, m = LayerNormalization<axis = 1>(x, s) }"},
      {"(float[2,3,4] x, float[4] s) => (y) { y = RMSNormalization(x, s) }"},
      {"(float[2,3,4] x, float[4] s) => (y) { y = SimplifiedLayerNormalization(x, s) }"},
      {"(float[2,3] x) => (y) { y = LpNormalization(x) }"},
      {"(float[2,3,5] x) => (y) { y = LpPool<kernel_shape = [2]>(x) }"},
      {"(float[2,3,5] x) => (y, i) { y, i = MaxPool<kernel_shape = [2], pads = [1, 1], storage_order = 1>(x) }"},
      {"(float[2,5,3] a, float[2,3,4] b) => (y) { y = MatMul(a, b) }"},
      {"(uint8[2,5,3] a, uint8[3,4] b, uint8[5] p, uint8[4] q) => (y) { y = MatMulInteger(a, b, p, q) }"},
      {"(uint8[5,3] a, int8[2,3,4] b, uint8[5] p, int8[4] q) => (y) { y = MatMulInteger(a, b, p, q) }"},
      {"(float[2,3,5,4] x) => (y, i) { y, i = MaxPool<kernel_shape = [2, 2], pads = [1, 1, 0, 0], storage_order = "
       "1>(x) }"},
      {"(float[2,3,4] x, int64[2,3,4] i) => (y) { y = MaxUnpool<kernel_shape = [2], strides = [2]>(x, i) }"},
      {"(float[2,3,4,5] x) => (y) { y = MeanVarianceNormalization(x) }"},
      {"(float[2,4] x) => (y) { y = Multinomial<sample_size = 3>(x) }"},
      {"(float[2,5,4] b, float[2,3,5] s) => (y) <int64 n = {2}, float o = {0.5}, float t = {0.1}>"
       "{ y = NonMaxSuppression(b, s, n, o, t) }"},
      {"(int64[2,3] i, float[2] v) => (y) <int64 depth = {4}> { y = OneHot(i, depth, v) }"},
      {"(float[2,3] x, float v) => (y) <int64[4] p = {1, 0, 0, 2}> { y = Pad(x, p, v) }"},
      {"(float[2,3] x) => (y) <int64[4] p = {1, 0, 0, 2}> { y = Pad<mode = \"reflect\">(x, p) }"},
      {"(uint8[2,4,5] x, float s, uint8 z, uint8[6,2,3] w, float[6] t, uint8[6] u, float o, uint8 p, int32[6] b) => (y)"
       "{ y = QLinearConv<group = 2>(x, s, z, w, t, u, o, p, b) }"},
      {"(uint8[2,5,3] a, float s, uint8 z, uint8[3,4] b, float[4] t, uint8[4] u, float o, uint8 p) => (y)"
       "{ y = QLinearMatMul(a, s, z, b, t, u, o, p) }"},
      {"(uint8[2,5,3] a, float[5] s, uint8[5] z, uint8[2,3,4] b, float[8] t, uint8[8] u, float[10] o, uint8[5] p) => "
       "(y)"
       "{ y = QLinearMatMul(a, s, z, b, t, u, o, p) }"},
      {"(float[2,3] x, float[3] s, uint8[3] z) => (y) { y = QuantizeLinear(x, s, z) }"},
      {"(float[2,6] x, float[2,3] s, int4[2,3] z) => (y) { y = QuantizeLinear<block_size = 2>(x, s, z) }"},
      {"() => (y) { y = RandomNormal<shape = [2, 3]>() }"},
      {"() => (y) { y = RandomUniform<shape = [2, 3]>() }"},
      {"(float[2,3] x) => (y) { y = RandomNormalLike(x) }"},
      {"(float[2,3] x) => (y) { y = RandomUniformLike(x) }"},
      {"() => (y) <int64 a = {1}, int64 b = {7}, int64 d = {2}> { y = Range(a, b, d) }"},
      {"() => (y) <int64 a = {4}, int64 b = {16}, int64 c = {8000}, float d = {0.0}, float e = {4000.0}>"
       "{ y = MelWeightMatrix(a, b, c, d, e) }"},
      {"(string[2,3] x) => (y) { y = RegexFullMatch<pattern = \"a.*\">(x) }"},
      {"(string[2,3] x, string[3] z) => (y) { y = StringConcat(x, z) }"},
      {"(string[3] x) => (y) { y = StringNormalizer(x) }"},
      {"(string[2,3] x) => (y, n) { y, n = StringSplit(x) }"},
      {"(float[2,6] x) => (y) <int64[3] s = {0, -1, 3}> { y = Reshape(x, s) }"},
      {"(float[2,6] x) => (y) <int64[2] s = {6, 2}> { y = Reshape<allowzero = 1>(x, s) }"},
      {"(float[2,3] x) => (y) <float[0] r = {}, float[2] s = {1.0, 2.0}> { y = Resize<mode = \"linear\">(x, r, s) }"},
      {"(float[2,3] x) => (y) <float[0] r = {}, float[0] s = {}, int64[2] t = {4, 3}> { y = Resize(x, r, s, t) }"},
      {"(float[2,3] x) => (y) <float[2] s = {1.0, 2.0}> { y = Resize(x, s) }", 10},
      {"(float[2,3] x) => (y) <float[2] s = {1.0, 2.0}> { y = Upsample(x, s) }", 9},
      {"(float[4,2,3] x, int64[2] l) => (y) { y = ReverseSequence(x, l) }"},
      {"(float[2,3,5,4] x, float[6,4] r) => (y) <int64[6] b = {0, 0, 0, 0, 0, 0}>"
       "{ y = RoiAlign<output_height = 2, output_width = 2>(x, r, b) }"},
      {"(float[2,8,1] x, float[4] w) => (y) <int64 step = {2}, int64 n = {4}> { y = STFT(x, step, w, n) }"},
      {"(float[4,3] x, int64[2,3] i, float[2,3] u) => (y) { y = Scatter(x, i, u) }", 9},
      {"(float[4,3] x, int64[2,3] i, float[2,3] u) => (y) { y = ScatterElements<reduction = \"add\">(x, i, u) }"},
      {"(float[4,5,3] x, int64[6,2] i, float[6,3] u) => (y) { y = ScatterND(x, i, u) }"},
      {"(float[2,3,8,4] x, float[2,3,5,4] u, int64[2] w) => (y) { y = TensorScatter(x, u, w) }"},
      {"(float[2,5,3] x) => (y) <int64[2] s = {0, -1}, int64[2] e = {1, -9}, int64[2] a = {0, 1}, int64[2] t = {1, -2}>"
       "{ y = Slice(x, s, e, a, t) }"},
      {"(float[2,6] x) => (p, q) <int64[2] s = {2, 4}> { p, q = Split<axis = 1>(x, s) }"},
      {"(float[2,6] x) => (p, q) { p, q = Split<axis = 1, num_outputs = 2>(x) }"},
      {"(float[2,1,3] x) => (y) <int64[1] a = {1}> { y = Squeeze(x, a) }"},
      {"(float[2,3] x) => (y) <int64[2] a = {0, -1}> { y = Unsqueeze(x, a) }"},
      {"(int64[2,6] x) => (y) { y = TfIdfVectorizer<mode = \"TF\", min_gram_length = 1, max_gram_length = 2,"
       "max_skip_count = 1, ngram_counts = [0, 2], ngram_indexes = [0, 1, 2], pool_int64s = [1, 2, 1, 3]>(x) }"},
      {"(float[2,3] x) => (y) <int64[2] r = {3, 2}> { y = Tile(x, r) }"},
      {"(float[2,5] x) => (v, i) <int64[1] k = {3}> { v, i = TopK(x, k) }"},
      {"(float[2,3,4] x) => (y) { y = Transpose<perm = [1, 2, 0]>(x) }"},
      {"(float[2,3,4] x, int64 k) => (y) { y = Trilu(x, k) }"},
      {"(float[2,3] x) => (y, i, j, n) { y, i, j, n = Unique<axis = 1>(x) }"},
      {"(float[2,3] x) => (y, i, j, n) { y, i, j, n = Unique(x) }"},
      {"(bool[2,1] c, float[3] x, float[2,3] z) => (y) { y = Where(c, x, z) }"},
      {"(float[2,3] x, float[3] s) => (y) { y = PRelu(x, s) }"},
      // ONNX Runtime's
      {"(float[2,3] x, float[3] b) => (y) { y = com.microsoft.BiasGelu(x, b) }"},
      {"(float[2,3] x, float[3] b) => (y) { y = com.microsoft.FastGelu(x, b) }"},
      {"(uint8[2,3] x, float s, uint8 z) => (y) { y = com.microsoft.DequantizeLinear(x, s, z) }"},
      {"(float[2,3] x, float s, uint8 z) => (y) { y = com.microsoft.QuantizeLinear(x, s, z) }"},
      {"(float[2,5,3] a, uint8[3,4] b, float[4] s, uint8[4] z, float[4] c) => (y)"
       "{ y = com.microsoft.DynamicQuantizeMatMul(a, b, s, z, c) }"},
      {"(uint8[2,5,3] a, uint8[3,4] b, float s, float[4] t, uint8 z, uint8[4] u, float[4] c) => (y)"
       "{ y = com.microsoft.MatMulIntegerToFloat(a, b, s, t, z, u, c) }"},
      {"(int32[2,3] i, int32[2,3] s, float[5,4] w, float[6,4] p, float[7,4] t, float[4] g, float[4] b, int32[2,3] m) "
       "=> (y, n)"
       "{ y, n = com.microsoft.EmbedLayerNormalization(i, s, w, p, t, g, b, m) }"},
      {"(float[2,3] a, float[3,4] b, float[4] c) => (y) { y = com.microsoft.FusedGemm<activation = \"Relu\">(a, b, c) "
       "}"},
      {"(float[2,5,3] a, float[2,4,3] b) => (y) { y = com.microsoft.FusedMatMul<transB = 1>(a, b) }"},
      {"(float[2,5,3] a, float[2,3,4] b) => (y) { y = com.microsoft.TransposeMatMul(a, b) }"},
      {"(float[2,1,1] x) => (y) { y = com.microsoft.Inverse(x) }"},
      {"(uint8[2,3] x, float s, uint8 z, float o, uint8 p) => (y) { y = com.microsoft.QLinearSoftmax(x, s, z, o, p) }"},
      {"(float[8,2] t) => (y) <int64 q = {3}, int64 k = {5}> { y = com.microsoft.RelativePositionBias<max_distance = "
       "9>(t, q, k) }"},
      {"(float[2,3,4] x, float[4] s) => (y) { y = com.microsoft.SimplifiedLayerNormalization(x, s) }"},
      {"(float[2,3,4] x, float[2,3,4] r, float[4] s, float[4] b, float[4] a) => (y, m, v, t)"
       "{ y, m, v, t = com.microsoft.SkipLayerNormalization(x, r, s, b, a) }"},
      {"(float[2,3,4] x, float[2,3,4] r, float[4] s, float[4] b) => (y, m, v, t)"
       "{ y, m, v, t = com.microsoft.SkipSimplifiedLayerNormalization(x, r, s, b) }"},
      {"(float[5,2,1] x, float[1,8] b) => (y) <int8[1,1,4] w = {1, 2, 3, 4}, int8[1,1,4] r = {1, 2, 3, 4},"
       "float[1,4] s = {0.1, 0.1, 0.1, 0.1}, int8[1] z = {1}>"
       "{ y = com.microsoft.DynamicQuantizeLSTM<hidden_size = 1>(x, w, r, b, , , , , s, z, s, z) }"},
      // attune's
      {"(float[2,5,12] q, float[2,7,12] k, float[2,7,12] v) => (y) { y = ai.attune.Attention<num_heads = 3>(q, k, v) "
       "}"},
      {"(float[2,5,12] q, float[2,7,4] k, float[2,7,4] v, bool[2,3,5,7] m, int64[2] l) => (c, w)"
       "{ c, pk, pv, w = ai.attune.Attention<num_heads = 3, num_kv_heads = 1, weights_output = \"normalized\">"
       "(q, k, v, , , , , , , m, l) }"},
      {"(float[2,1,6] q, float[2,1,6] k, float[2,1,6] v, float[2,3,5,2] p, float[2,3,5,2] r) => (c, s, t)"
       "{ c, s, t = ai.attune.Attention<num_heads = 3, causal = 1>(q, k, v, , , , , , , , , p, r) }"},
      {"(float[2,5,3] x, float[2] b, float[5] d, float[2,5,5] r) => (y) <float[3,2] w = {1, 2, 3, 4, 5, 6},"
       "float[2,5] v = {1, 2, 3, 4, 5, 6, 7, 8, 9, 0}> { y = ai.attune.runtime.FeedForward(x, w, b, v, d, r) }"},
      {"(float[2,5,3] x, float[2] b) => (y, v) <float[3,2] w = {1, 2, 3, 4, 5, 6}, int64[2] n = {1, 0}>"
       "{ y, v = ai.attune.runtime.LinearTop(x, w, b, n) }"},
      {"(float[2,5,3] x, float[3,4] w, float[4] b, float[2,5,4] r) => (y) { y = ai.attune.Linear(x, w, b, r) }"},
      {"(float[2,5,3] x, float[9,3] t) => (y) <int64[1] s = {2}, int64[2,6] k = {1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0}>"
       "{ y = ai.attune.PositionEmbedding(x, t, s, k) }"},
      {"(float[8,2] t) => (y) <int64 q = {3}, int64 k = {5}> { y = ai.attune.RelativePositionBias(t, q, k) }"},
      {"(float[2,3,4] x, float[2,3,4] r, float[4] s, float[4] b) => (y, t)"
       "{ y, t = ai.attune.ResidualNormalization(x, r, s, b) }"},
  };
  const auto each = [&](const std::string& inputs, const std::string& arguments,
                        const std::vector<std::string>& types) {
    for (const std::string& type : types)
      rows.push_back({"(" + inputs + ") => (y) { y = " + type + "(" + arguments + ") }"});
  };
  each("float[2,3] x", "x",
       {"Abs",
        "Acos",
        "Acosh",
        "Asin",
        "Asinh",
        "Atan",
        "Atanh",
        "Ceil",
        "Celu",
        "Cos",
        "Cosh",
        "Elu",
        "Erf",
        "Exp",
        "Floor",
        "Gelu",
        "Hardmax",
        "HardSwish",
        "Identity",
        "HardSigmoid",
        "IsInf",
        "IsNaN",
        "Log",
        "LeakyRelu",
        "Mish",
        "LogSoftmax",
        "Neg",
        "NonZero",
        "Reciprocal",
        "Relu",
        "Round",
        "Selu",
        "Shape",
        "Shrink",
        "Sigmoid",
        "Sign",
        "Sin",
        "Sinh",
        "Size",
        "Softmax",
        "Sqrt",
        "Softplus",
        "Softsign",
        "Swish",
        "Tan",
        "Tanh",
        "Transpose",
        "ThresholdedRelu",
        "com.microsoft.Gelu",
        "com.microsoft.QuickGelu"});
  each("int32[2,3] x", "x", {"BitwiseNot"});
  each("bool[2,3] x", "x", {"Not"});
  each("float[2,1] a, float[4,2,3] b", "a, b",
       {"Add", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean", "Min", "Mul", "Pow",
        "Sub", "Sum", "Mod<fmod = 1>"});
  each("int32[2,1] a, int32[4,2,3] b", "a, b", {"BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Mod", "Pow"});
  each("bool[2,1] a, bool[4,2,3] b", "a, b", {"And", "Or", "Xor"});
  for (const char* type : {"L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"})
    for (const char* keep : {"0", "1"})
      rows.push_back({std::string("(float[2,3,4] x) => (y) <int64[1] axes = {1}> { y = Reduce") + type +
                      "<keepdims = " + keep + ">(x, axes) }"});
  return rows;
}

}  // namespace attune::testing
