// Attention in several streams at once, (B, N, H, T, E): streams that are projected alike, whether together or each for
// itself, are projected inside of one Attention, and no row more often than before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "convert/verify.h"
#include "graph/io/text.h"
#include "passes/attention_node.h"
#include "passes/pass.h"

namespace attune {
namespace {

// Parts of a decoder with a main stream (0) and two predicting ones, as ProphetNet's: what a predicting stream looks at
// are the rows of the main one and its own.
struct Streams {
  std::string inputs = "float[B,T,4] x0, float[B,T,4] x1, float[B,T,4] x2";
  std::string heads = "0, 0, 2, 2";
  std::string rows;  // before the projections
  std::string queries = project("q", "1", "wq") + project("q", "2", "wq");
  std::string keys = project("k", "0", "wk") + project("k", "1", "wk") + project("k", "2", "wk");
  std::string values = project("v", "0", "wv") + project("v", "1", "wv") + project("v", "2", "wv");
  std::string outputs;  // more of them

  // NAME_I: heads of x_I times the weight.
  static std::string project(const std::string& name, const std::string& i, const std::string& weight,
                             const std::string& order = "0, 2, 1, 3") {
    return name + i + "p = MatMul (x" + i + ", " + weight + ") " + name + i + "h = Reshape (" + name + i +
           "p, heads) " + name + i + " = Transpose <perm = [" + order + "]> (" + name + i + "h)\n";
  }

  std::string text() const {
    return R"(<ir_version: 8, opset_import: ["" : 17]>
      g ()" +
           inputs + ") => (float[B,N,T,4] y" + outputs + R"()
      <float[4,4] wq = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}, float[4,4] wk = {1,2,1,2,3,1,2,3,1,2,3,1,2,3,1,2},
       float[4,4] wv = {3,1,3,1,2,3,4,3,2,1,3,2,1,3,2,1}, float[4,4] wq2 = {7,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}, int64[4] heads = {)" +
           heads +
           R"(}, int64[1] i0 = {0},
       int64[1] i1 = {1}, int64[1] i2 = {2}, int64[1] i3 = {3}, int64[4] merge = {0, 2, 0, 4}, float scale = {20}>
      { )" +
           rows + queries + keys + values + R"(
        q1u = Unsqueeze (q1, i1)
        q2u = Unsqueeze (q2, i1)
        q = Concat <axis = 1> (q1u, q2u)
        k1a = Concat <axis = 2> (k0, k1)
        k2a = Concat <axis = -2> (k0, k2)
        k1u = Unsqueeze (k1a, i1)
        k2u = Unsqueeze (k2a, i1)
        k = Concat <axis = 1> (k1u, k2u)
        kt = Transpose <perm = [0, 1, 2, 4, 3]> (k)
        v1a = Concat <axis = 2> (v0, v1)
        v2a = Concat <axis = 2> (v0, v2)
        v1u = Unsqueeze (v1a, i2)
        v2u = Unsqueeze (v2a, i2)
        v12 = Concat <axis = 2> (v1u, v2u)
        v = Transpose <perm = [0, 2, 1, 3, 4]> (v12)
        e0 = MatMul (q, kt)
        e = Div (e0, scale)
        p = Softmax <axis = -1> (e)
        c = MatMul (p, v)
        t = Transpose <perm = [0, 1, 3, 2, 4]> (c)
        y = Reshape (t, merge) })";
  }
};

struct Result {
  size_t attentions = 0, projections = 0, products = 0;
  bool has_past = false, verified = false;
  std::vector<std::string> misses;
};

Result convert(const Streams& streams) {
  const Model source = parse_model(streams.text());
  Model model = parse_model(streams.text());
  Report report;
  optimize(model, report);
  model.graph->verify();
  Result result;
  model.graph->for_each_node([&](const Node& n) {
    result.products += n.is("Linear", kAttuneDomain) || n.is("MatMul") ? 1 : 0;
    if (!is_attention(n)) return;
    ++result.attentions;
    for (const AttentionInput w : {kAttentionQueryWeight, kAttentionKeyWeight, kAttentionValueWeight})
      result.projections += n.input(w) ? 1 : 0;
    result.has_past = n.input(kAttentionPastKey) != nullptr;
  });
  for (const NearMiss& miss : report.near_misses) result.misses.push_back(miss.reason);
  result.verified = verify(source, model).passed();
  return result;
}

// The main stream's keys, projected once, are the past of the others.
TEST(Streams, ThatAreProjectedEachForItself) {
  const Result r = convert({});
  EXPECT_EQ(r.attentions, 1U);
  EXPECT_EQ(r.projections, 3U);
  EXPECT_TRUE(r.has_past);
  EXPECT_EQ(r.products, 2U) << "keys and values of the main stream";
  EXPECT_TRUE(r.verified);
}

TEST(Streams, ThatAreProjectedTogetherAndCutInTime) {
  Streams streams;
  const auto cut = [](const std::string& name, const std::string& weight) {
    return name + "p = MatMul (x, " + weight + ") " + name + "h = Reshape (" + name + "p, heads) " + name +
           "a = Transpose <perm = [0, 2, 1, 3]> (" + name + "h) " + name + "0 = Slice (" + name + "a, i0, n, i2) " +
           name + "1 = Slice (" + name + "a, n, n2, i2) " + name + "2 = Slice (" + name + "a, n2, n3, i2)\n";
  };
  streams.rows =
      "x = Concat <axis = 1> (x0, x1, x2) shape = Shape (x1) n = Gather (shape, i1) n2 = Mul (n, i2) n3 = Mul (n, "
      "i3)\n";
  streams.queries = cut("q", "wq");
  streams.keys = cut("k", "wk");
  streams.values = cut("v", "wv");
  const Result r = convert(streams);
  EXPECT_EQ(r.projections, 3U);
  EXPECT_TRUE(r.has_past);
  EXPECT_EQ(r.products, 2U);
  EXPECT_TRUE(r.verified);
}

// An axis of one head is none of heads that share a key head.
TEST(Streams, OfOneHead) {
  Streams streams;
  streams.heads = "0, 0, 1, 4";
  const Result r = convert(streams);
  EXPECT_EQ(r.attentions, 1U);
  EXPECT_EQ(r.projections, 3U);
  EXPECT_TRUE(r.has_past);
  EXPECT_TRUE(r.verified);
}

// What is not the same for all streams stays in front of their stack.
TEST(Streams, OfAWeightEach) {
  Streams streams;
  streams.queries = Streams::project("q", "1", "wq") + Streams::project("q", "2", "wq2");
  const Result r = convert(streams);
  EXPECT_EQ(r.attentions, 1U);
  EXPECT_EQ(r.projections, 2U);
  EXPECT_EQ(r.products, 4U) << "queries of two streams, and the main stream";
  EXPECT_TRUE(r.verified);
}

TEST(Streams, OneWhoseProjectionOthersUse) {
  Streams streams;
  streams.outputs = ", float[A,C,D] q2p";
  const Result r = convert(streams);
  EXPECT_EQ(r.projections, 2U);
  EXPECT_EQ(r.products, 4U) << "each of the queries once";
  EXPECT_TRUE(r.verified);
  EXPECT_THAT(r.misses, testing::ElementsAre("expected Add or MatMul, found Reshape")) << "of the stack";
}

TEST(Streams, OneWhoseProjectionIsReadElsewhere) {
  Streams streams;
  streams.queries += "z = Neg (q2p)\n";
  streams.outputs = ", float[A,C,D] z";
  const Result r = convert(streams);
  EXPECT_EQ(r.projections, 2U);
  EXPECT_EQ(r.products, 4U) << "each of the queries once";
  EXPECT_TRUE(r.verified);
}

// Heads of a stack whose streams don't have them alike stay outside, and the report says so.
TEST(Streams, OneWhoseHeadsOthersUse) {
  Streams streams;
  streams.outputs = ", float[A,C,D,E] q2";
  const Result r = convert(streams);
  EXPECT_EQ(r.attentions, 1U);
  EXPECT_EQ(r.projections, 0U);
  EXPECT_TRUE(r.verified);
  EXPECT_THAT(r.misses, testing::ElementsAre("expected Transpose, found Reshape"));
}

TEST(Streams, InAnotherOrder) {
  Streams streams;
  streams.inputs = "float[B,2,4] x0, float[B,2,4] x1, float[B,2,4] x2";
  streams.queries = Streams::project("q", "1", "wq") + Streams::project("q", "2", "wq", "0, 1, 2, 3");
  const Result r = convert(streams);
  EXPECT_EQ(r.projections, 0U);
  EXPECT_TRUE(r.verified);
  EXPECT_THAT(r.misses, testing::ElementsAre("expected Transpose, found Reshape"));
}

}  // namespace
}  // namespace attune
