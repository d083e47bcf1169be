// What stands between a softmax and the products of an attention, by its name in the field: rounding, talking heads,
// sinks, blocks and windows of positions, factors of weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "passes/passes.h"
#include "tests/support/explained.h"

namespace attune {
namespace {

using test::numbers;
using test::Spoiled;

class ExplainSoftmaxes : public testing::TestWithParam<Spoiled> {};

TEST_P(ExplainSoftmaxes, NamesNodeStepAndReason) { test::expect_explained(GetParam()); }

// Two heads of width 4, queries of T and keys of S positions; `body` gives y from q, kt and v.
std::string heads(const std::string& body, const std::string& more = "", const std::string& constants = "") {
  return R"(<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
    g (float[B,2,T,4] q, float[B,2,4,S] kt, float[B,2,S,4] v)" +
         more + ") => (float[B,2,T,4] y)\n<float step = {0.01}, int8 zero = {0}, uint8 low = {0}" + constants +
         "> {\n" + body + "}";
}

constexpr const char* kMix = ", float[2,2] mix = {1, 2, 3, 4}, float[2,2,1,1] kernel = {1, 2, 3, 4}";
constexpr const char* kLast = ", int64[1] start = {0}, int64[1] last = {-1}, int64[1] axis = {3}";

std::vector<Spoiled> spoiled() {
  std::vector<Spoiled> all;
  const auto add = [&](std::string name, std::string text, std::string anchor, std::string path, std::string reason,
                       bool runs = true) {
    all.push_back({std::move(name), std::move(text), "fuse_attention", std::move(anchor), std::move(path),
                   std::move(reason), runs});
  };
  // static quantization
  add("weights_rounded", heads(R"(e = MatMul (q, kt)
      [softmax] p = Softmax <axis = -1> (e)
      [round] p8 = QuantizeLinear (p, step, zero)
      pr = DequantizeLinear (p8, step, zero)
      y = MatMul (pr, v) )"),
      "'softmax'", "MatMul[0]", "the weights are rounded to 8 or 16 bits by node 'round' (QuantizeLinear)");
  add("scores_rounded", heads(R"(e = MatMul (q, kt)
      [round] e8 = QuantizeLinear (e, step, zero)
      er = DequantizeLinear (e8, step, zero)
      [softmax] p = Softmax <axis = -1> (er)
      y = MatMul (p, v) )"),
      "'softmax'", "MatMul[0].Softmax[0]", "the scores are rounded to 8 or 16 bits by node");
  add("product_of_integers", heads(R"(e = MatMul (q, kt)
      [softmax] p = Softmax <axis = -1> (e)
      [round] p8 = QuantizeLinear (p, step, zero)
      v8 = QuantizeLinear (v, step, zero)
      y8 = QLinearMatMul (p8, step, zero, v8, step, zero, step, zero)
      y = DequantizeLinear (y8, step, zero) )"),
      "'softmax'", "MatMul[0]", "(nodes_to_exclude)");
  add("softmax_of_integers", heads(R"(q8 = QuantizeLinear (q, step, low)
      k8 = QuantizeLinear (kt, step, low)
      v8 = QuantizeLinear (v, step, low)
      e8 = QLinearMatMul (q8, step, low, k8, step, low, step, low)
      [softmax] p8 = com.microsoft.QLinearSoftmax <axis = -1, opset = 17> (e8, step, low, step, low)
      [context] y8 = QLinearMatMul (p8, step, low, v8, step, low, step, low)
      y = DequantizeLinear (y8, step, low) )"),
      "'softmax'", "MatMul[0]",
      "the weights are rounded to 8 or 16 bits by node 'softmax' (com.microsoft.QLinearSoftmax)", false);
  // talking heads
  add("talking_heads_behind",
      heads(R"(e = MatMul (q, kt)
      [softmax] p = Softmax <axis = -1> (e)
      t = Transpose <perm = [0, 2, 3, 1]> (p)
      [talk] m = MatMul (t, mix)
      w = Transpose <perm = [0, 3, 1, 2]> (m)
      y = MatMul (w, v) )",
            "", kMix),
      "'softmax'", "MatMul[0]", "mixes the weights of all heads (talking heads)");
  add("talking_heads_in_front",
      heads(R"(e = MatMul (q, kt)
      t = Transpose <perm = [0, 2, 3, 1]> (e)
      [talk] m = MatMul (t, mix)
      w = Transpose <perm = [0, 3, 1, 2]> (m)
      [softmax] p = Softmax <axis = -1> (w)
      y = MatMul (p, v) )",
            "", kMix),
      "'softmax'", "MatMul[0].Softmax[0]", "mixes the scores of all heads (talking heads)");
  add("talking_heads_by_convolution",
      heads(R"(e = MatMul (q, kt)
      [softmax] p = Softmax <axis = -1> (e)
      [talk] w = Conv (p, kernel)
      y = MatMul (w, v) )",
            "", kMix),
      "'softmax'", "MatMul[0]", "node 'talk' (Conv) mixes the weights");
  // which are no talking heads
  add("convolution_of_neighbours",
      heads(R"(e = MatMul (q, kt)
      [softmax] p = Softmax <axis = -1> (e)
      [conv] w = Conv <pads = [1, 1, 1, 1]> (p, blur)
      y = MatMul (w, v) )",
            "", ", float[2,2,3,3] blur = {" + numbers(36) + "}"),
      "'softmax'", "MatMul[0]", "the weights are changed by node 'conv' (Conv)");
  add("convolution_of_one_head", R"(<ir_version: 8, opset_import: ["" : 17]>
      g (float[B,1,T,4] q, float[B,1,4,S] kt, float[B,1,S,4] v) => (float[B,1,T,4] y) <float[1,1,1,1] factor = {2}>
      { e = MatMul (q, kt)
        [softmax] p = Softmax <axis = -1> (e)
        [conv] w = Conv (p, factor)
        y = MatMul (w, v) })",
      "'softmax'", "MatMul[0]", "the weights are changed by node 'conv' (Conv)");
  const auto mixed_keys = [&](std::string name, const std::string& few, const std::string& many) {
    add(std::move(name),
        "<ir_version: 8, opset_import: [\"\" : 17]> g (float[B,2,T,4] q, float[B,2,4," + few + "] kt, float[B,2," +
            many + ",4] v) => (float[B,2,T,4] y)\n<float[" + few + "," + many + "] spread = {" + numbers(10) + R"(}>
      { e = MatMul (q, kt)
        [softmax] p = Softmax <axis = -1> (e)
        [spread] w = MatMul (p, spread)
        y = MatMul (w, v) })",
        "'softmax'", "value", "expected rank 4");
  };
  mixed_keys("two_keys_spread", "2", "5");
  mixed_keys("keys_to_two", "5", "2");
  add("talking_heads_from_the_left", R"(<ir_version: 8, opset_import: ["" : 17]>
      g (float[B,2,3,4] q, float[B,2,4,5] kt, float[B,2,5,4] v) => (float[B,2,3,4] y)
      <float[2,2] mix = {1, 2, 3, 4}, int64[3] flat = {0, 2, 15}, int64[4] back = {0, 2, 3, 5}>
      { e = MatMul (q, kt)
        f = Reshape (e, flat)
        [talk] m = MatMul (mix, f)
        r = Reshape (m, back)
        [softmax] p = Softmax <axis = -1> (r)
        y = MatMul (p, v) })",
      "'softmax'", "MatMul[0].Softmax[0]", "node 'talk' (MatMul) mixes the scores");
  // scores of a linear layer over rounded ones
  add("scores_of_a_layer",
      R"(<ir_version: 8, opset_import: ["" : 17]>
      g (float[B,2,T,4] q, float[B,2,4,8] kt, float[B,2,3,4] v) => (float[B,2,T,4] y)
      <float step = {0.01}, int8 zero = {0}, float[8,3] columns = {)" +
          numbers(24) + R"(}>
      { e = MatMul (q, kt)
        e8 = QuantizeLinear (e, step, zero)
        er = DequantizeLinear (e8, step, zero)
        [layer] l = MatMul (er, columns)
        [softmax] p = Softmax <axis = -1> (l)
        y = MatMul (p, v) })",
      "'softmax'", "key", "expected rank 4");
  // keys that are dropped behind the softmax
  add("keys_dropped",
      heads(R"(e = MatMul (q, kt)
      [softmax] p = Softmax <axis = -1> (e)
      [drop] w = Slice (p, start, last, axis)
      vs = Slice (v, start, last, rows)
      y = MatMul (w, vs) )",
            "", std::string(kLast) + ", int64[1] rows = {2}"),
      "'softmax'", "MatMul[0]", "the weights are changed by node 'drop' (Slice)");
  // a sink of each head
  add("sink",
      heads(R"(e = MatMul (q, kt)
      [beside] es = Concat <axis = -1> (e, sink)
      [softmax] p = Softmax <axis = -1> (es)
      [drop] w = Slice (p, start, last, axis)
      y = MatMul (w, v) )",
            ", float[B,2,T,1] sink", kLast),
      "'softmax'", "MatMul[0]",
      "node 'beside' (Concat) puts a column beside the scores, whose weight node 'drop' (Slice) drops");
  // PEGASUS-X's: keys of all and of neighbours
  add("scores_of_two_products",
      heads(R"(e0 = MatMul (q, kt)
      f = MatMul (q, gt)
      [joined] es = Concat <axis = -1> (e0, f)
      [softmax] p = Softmax <axis = -1> (es)
      w = Slice (p, start, middle, axis)
      u = Slice (p, middle, end, axis)
      a = MatMul (w, v)
      b = MatMul (u, gv)
      y = Add (a, b) )",
            ", float[B,2,4,3] gt, float[B,2,3,4] gv",
            ", int64[1] start = {0}, int64[1] middle = {-3}, int64[1] end = {1000}, int64[1] axis = {3}"),
      "'softmax'", "MatMul[0]", "node 'joined' (Concat) joins scores with several sets of keys");
  // Luong's local-p, and a factor of each key
  add("window_behind",
      heads(R"(e = MatMul (q, kt)
      [softmax] p = Softmax <axis = -1> (e)
      square = Mul (distance, distance)
      minus = Neg (square)
      bell = Exp (minus)
      [window] w = Mul (p, bell)
      y = MatMul (w, v) )",
            ", float[B,1,T,S] distance"),
      "'softmax'", "MatMul[0]", "is another model");
  add("factors_behind",
      heads(R"(e = MatMul (q, kt)
      [softmax] p = Softmax <axis = -1> (e)
      [gate] w = Mul (p, factors)
      y = MatMul (w, v) )",
            ", float[B,1,1,S] factors"),
      "'softmax'", "MatMul[0]", "the weights are changed by node 'gate' (Mul) between softmax and the product");
  const auto gate = [&](std::string name, const std::string& lines, const std::string& node,
                        const std::string& more = ", float[B,S] f") {
    add(std::move(name),
        heads("e = MatMul (q, kt)\n [softmax] p = Softmax <axis = -1> (e)\n" + lines + "\n y = MatMul (w, v)", more,
              ", int64[2] middle = {1, 2}, float one = {1}, float nothing = {0}"),
        "'softmax'", "MatMul[0]",
        "the weights are changed by node " + node +
            " between softmax and the product with the values, which in an Attention takes them as they are; what "
            "hides keys belongs in front");
  };
  gate("factors_unsqueezed", "g = Unsqueeze (f, middle)\n [gate] w = Mul (p, g)", "'gate' (Mul)");
  gate("factors_by_sigmoid",
       "g = Unsqueeze (f, middle)\n x = Exp (g)\n x1 = Add (x, one)\n s = Reciprocal (x1)\n [gate] w = Mul (p, s)",
       "'gate' (Mul)");
  gate("exponentials_added", "g = Unsqueeze (f, middle)\n x = Exp (g)\n [more] w = Add (p, x)", "'more' (Add)");
  gate("clipped_from_above", "[clip] w = Clip (p, , one)", "'clip' (Clip)");
  gate("hidden_by_numbers", "c = Less (hidden, one)\n [mask] w = Where (c, p, nothing)", "'mask' (Where)",
       ", float[B,1,1,S] hidden");
  gate("hidden_behind", "c = Not (hidden)\n [mask] w = Where (c, p, nothing)", "of 'w' (Where)",
       ", bool[B,1,1,S] hidden");
  // normalized anew, of which another report would be wrong
  add("window_normalized",
      heads(R"(e = MatMul (q, kt)
      [softmax] p = Softmax <axis = -1> (e)
      bell = Exp (distance)
      w0 = Mul (p, bell)
      sum = ReduceSum (w0, axis)
      [divide] w = Div (w0, sum)
      y = MatMul (w, v) )",
            ", float[B,1,T,S] distance", ", int64[1] axis = {-1}"),
      "'softmax'", "MatMul[0]", "a window over positions");
  add("gates_behind", heads(R"(e = MatMul (q, kt)
      [softmax] p = Softmax <axis = -1> (e)
      b = MatMul (q, kt)
      open = Sigmoid (b)
      [gate] w = Mul (p, open)
      y = MatMul (w, v) )"),
      "'softmax'", "MatMul[0]", "changed by node 'gate' (Mul)");
  // cosine scores with a scale of each head
  add("scale_of_each_head",
      heads(R"(e = MatMul (q, kt)
      [scale] s = Mul (e, scales)
      [softmax] p = Softmax <axis = -1> (s)
      y = MatMul (p, v) )",
            ", float[2,1,1] scales"),
      "'softmax'", "Mul", "multiply the queries by the factor of node 'scale' (Mul) instead");
  return all;
}

INSTANTIATE_TEST_SUITE_P(Heads, ExplainSoftmaxes, testing::ValuesIn(spoiled()), test::spoiled_name);

// LongT5's: blocks of two positions, the keys of each with those of its neighbours. As many blocks of queries as of
// keys would fuse, with blocks as batch.
std::vector<Spoiled> blocks() {
  const std::string text = R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[B,P,2,2,4] q, float[B,6,2,4] k, float[B,6,2,4] v) => (float[B,P,2,2,4] y)
    <int64[5] in_blocks = {0, 3, 2, 2, 4}, int64[10] pads = {0, 1, 0, 0, 0, 0, 1, 0, 0, 0},
     int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] three = {3}, int64[1] four = {4},
     int64[1] five = {5}>
    { kb = Reshape (k, in_blocks)
      kp = Pad (kb, pads)
      k0 = Slice (kp, zero, three, one)
      k1 = Slice (kp, one, four, one)
      k2 = Slice (kp, two, five, one)
      kn = Concat <axis = 2> (k0, k1, k2)
      vb = Reshape (v, in_blocks)
      vp = Pad (vb, pads)
      v0 = Slice (vp, zero, three, one)
      v1 = Slice (vp, one, four, one)
      v2 = Slice (vp, two, five, one)
      [neighbours] vn = Concat <axis = 2> (v0, v1, v2)
      e = Einsum <equation = "...qhd,...khd->...hqk"> (q, kn)
      [softmax] p = Softmax <axis = -1> (e)
      y = Einsum <equation = "...hqk,...khd->...qhd"> (p, vn) })";
  return {{"long_t5", text, "fuse_attention", "'softmax'", "MatMul[1]",
           "each block beside its neighbours by node 'neighbours' (Concat) (local attention)", false}};
}

INSTANTIATE_TEST_SUITE_P(Blocks, ExplainSoftmaxes, testing::ValuesIn(blocks()), test::spoiled_name);

// Swin's: three windows of an image, of which each has its own mask.
std::vector<Spoiled> windows() {
  const std::string text = R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[N,2,4,4] q, float[N,2,4,4] kt, float[N,2,4,4] v, float[1,3,1,4,4] mask) => (float[N,2,4,4] y)
    <int64[5] images = {-1, 3, 2, 4, 4}, int64[4] back = {-1, 2, 4, 4}, float[1,2,4,4] bias = {)";
  return {{"shifted", text + numbers(32) + R"(}>
    { e = MatMul (q, kt)
      b = Add (e, bias)
      unfolded = Reshape (b, images)
      [masked] m = Add (unfolded, mask)
      folded = Reshape (m, back)
      [softmax] p = Softmax <axis = -1> (folded)
      y = MatMul (p, v) })",
           "fuse_attention", "'softmax'", "MatMul[0].Softmax[0]", "node 'masked' (Add) adds a mask of each window",
           false}};
}

INSTANTIATE_TEST_SUITE_P(Windows, ExplainSoftmaxes, testing::ValuesIn(windows()), test::spoiled_name);

// A bias that a file names as "".
TEST(ExplainSoftmaxes, InputsLeftOut) {
  Model model = parse_model(heads(R"(e = MatMul (q, kt)
      p = Softmax <axis = -1> (e)
      w = Conv <pads = [1, 1, 1, 1]> (p, blur)
      y = MatMul (w, v) )",
                                  "", ", float[2,2,3,3] blur = {" + numbers(36) + "}"));
  model.graph->for_each_node([](Node& n) {
    if (n.is("Conv")) n.set_input(2, nullptr);
  });
  Report report;
  PassContext context{model, report, {}};
  explain_softmaxes(context);
  EXPECT_EQ(report.near_misses.size(), 1U);
}

// Whatever gives its first output to nobody.
TEST(ExplainSoftmaxes, OutputsLeftOut) {
  for (const char* line :
       {", w = Softmax <axis = -1> (e)", ", w = com.microsoft.QLinearSoftmax (e, step, low, step, low)",
        "p = Softmax <axis = -1> (e)\n , w, z = DynamicQuantizeLinear (p)\n pr = Mul (p, step)"}) {
    const std::string text = heads("e = MatMul (q, kt)\n" + std::string(line) + "\n y = Mul (e, w)");
    EXPECT_NO_THROW(test::Converted{text}) << line;
  }
}

// What the report advises for a scale of each head.
TEST(ExplainSoftmaxes, AScaleOfEachHeadInFrontFuses) {
  const test::Converted c(heads(R"(qs = Mul (q, scales)
      e = MatMul (qs, kt)
      p = Softmax <axis = -1> (e)
      y = MatMul (p, v) )",
                                ", float[2,1,1] scales"));
  EXPECT_EQ(c.attentions, 1U);
  c.expect_same();
}

// What the report advises for a sink: a key and a value of zeros, whose score is a mask.
TEST(ExplainSoftmaxes, ASinkAsAKeyFuses) {
  const test::Converted c(heads(R"(k = Concat <axis = 3> (kt, zero_key)
      vs = Concat <axis = 2> (v, zero_value)
      e = MatMul (q, k)
      m = Add (e, sink)
      p = Softmax <axis = -1> (m)
      y = MatMul (p, vs) )",
                                ", float[B,2,4,1] zero_key, float[B,2,1,4] zero_value, float[1,2,1,Z] sink"));
  EXPECT_EQ(c.attentions, 1U);
}

// As many blocks of queries as of keys, for any number of positions.
TEST(ExplainSoftmaxes, BlocksOfOneSequenceFuse) {
  const test::Converted c(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[B,N,2,4] q, float[B,N,2,4] k) => (float[B,N,2,4] y)
    <int64[5] in_blocks = {0, -1, 2, 2, 4}, int64[4] back = {0, -1, 2, 4}, int64[10] pads = {0, 1, 0, 0, 0, 0, 1, 0, 0, 0},
     int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] before_two = {-2}, int64[1] before_one = {-1},
     int64[1] end = {1000000}>
    { qb = Reshape (q, in_blocks)
      kb = Reshape (k, in_blocks)
      kp = Pad (kb, pads)
      k0 = Slice (kp, zero, before_two, one)
      k1 = Slice (kp, one, before_one, one)
      k2 = Slice (kp, two, end, one)
      kn = Concat <axis = 2> (k0, k1, k2)
      e = Einsum <equation = "...qhd,...khd->...hqk"> (qb, kn)
      p = Softmax <axis = -1> (e)
      c = Einsum <equation = "...hqk,...khd->...qhd"> (p, kn)
      y = Reshape (c, back) })");
  EXPECT_EQ(c.attentions, 1U);
  c.expect_same();
}

// What the report advises for scores of several products.
TEST(ExplainSoftmaxes, KeysThatAreJoinedFuse) {
  const test::Converted c(heads(R"(k = Concat <axis = 3> (kt, gt)
      vs = Concat <axis = 2> (v, gv)
      e = MatMul (q, k)
      p = Softmax <axis = -1> (e)
      y = MatMul (p, vs) )",
                                ", float[B,2,4,3] gt, float[B,2,3,4] gv"));
  EXPECT_EQ(c.attentions, 1U);
  c.expect_same();
}

// BLOOM's: positions are added to folded scores, whose scale is known.
TEST(ExplainSoftmaxes, AdviceForAScaleIsOfThatScale) {
  const test::Converted c(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[N,T,4] q, float[N,4,S] kt, float[N,S,4] v, float[B,2,S] positions, bool[B,1,1,S] seen) => (float[N,T,4] y)
    <float half = {0.5}, float low = {-1e9}, int64[3] fold = {-1, 1, 0}, int64[1] two = {2}, int64[1] rest = {-1}>
    { e = MatMul (q, kt)
      s = Mul (e, half)
      folded = Reshape (positions, fold)
      a = Add (folded, s)
      batch = Shape <end = 1> (positions)
      length = Shape <start = 2> (positions)
      apart = Concat <axis = 0> (batch, two, rest, length)
      u = Reshape (a, apart)
      m = Where (seen, u, low)
      p = Softmax <axis = -1> (m)
      sizes = Shape (e)
      f = Reshape (p, sizes)
      y = MatMul (f, v) })");
  ASSERT_EQ(c.report.near_misses.size(), 1U);
  EXPECT_THAT(c.report.near_misses[0].reason, testing::EndsWith("expected a known scalar, found Reshape"));
}

// What the report advises for windows.
TEST(ExplainSoftmaxes, AMaskOfWindowsRepeatedFuses) {
  const test::Converted c(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[6,2,4,4] q, float[6,2,4,4] kt, float[6,2,4,4] v, float[3,1,4,4] mask) => (float[6,2,4,4] y)
    <int64[4] images = {2, 1, 1, 1}>
    { e = MatMul (q, kt)
      repeated = Tile (mask, images)
      m = Add (e, repeated)
      p = Softmax <axis = -1> (m)
      y = MatMul (p, v) })");
  EXPECT_EQ(c.attentions, 1U);
  c.expect_same();
}

// Keys of one head are no column of weights, which would make them additive scores.
TEST(ExplainSoftmaxes, OneHeadAsDotProduct) {
  const test::Converted c(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[B,1,T,4] q, float[B,1,4,S] kt, float[B,1,S,4] v) => (float[B,1,T,4] y)
    { e = MatMul (q, kt)
      p = Softmax <axis = -1> (e)
      n = Sin (p)
      y = MatMul (n, v) })");
  ASSERT_EQ(c.report.near_misses.size(), 1U);
  EXPECT_EQ(c.report.near_misses[0].rule, "fuse_attention");
}

}  // namespace
}  // namespace attune
