// Batches under different names: a batch of 1 beside several is broadcast by the source, and by what it becomes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "convert/target.h"
#include "convert/verify.h"
#include "graph/io/text.h"
#include "passes/attention_node.h"
#include "passes/pass.h"

namespace attune {
namespace {

struct Case {
  const char* name;
  const char* inputs;  // with the sizes N and M
  const char* outputs;
  const char* nodes;  // give y
};

std::string text_of(const Case& c) {
  return std::string(R"(<ir_version: 8, opset_import: ["" : 17]> g ()") + c.inputs + ") => (" + c.outputs + R"()
    <float scale = {0.25}, float none = {0}, float filler = {-1e30}, float[2,1] column = {0.5, -2}, int64[4] heads = {0, 0, 2, 8},
     int64[3] merged = {0, 0, 16}> {)" +
         c.nodes + "}";
}

const Case kCases[] = {
    {"Heads", "float[N,2,S,8] q, float[M,2,8,T] k, float[M,2,T,8] v", "float[B,2,S,8] y",
     "s = MatMul (q, k) scaled = Mul (s, scale) w = Softmax <axis = -1> (scaled) y = MatMul (w, v)"},
    {"ValuesAlone", "float[N,2,S,8] q, float[N,2,8,T] k, float[M,2,T,8] v", "float[B,2,S,8] y",
     "s = MatMul (q, k) w = Softmax <axis = -1> (s) y = MatMul (w, v)"},
    {"Mask", "float[N,2,S,8] q, float[N,2,8,T] k, float[N,2,T,8] v, float[M,1,1,T] mask", "float[B,2,S,8] y",
     "s = MatMul (q, k) masked = Add (s, mask) w = Softmax <axis = -1> (masked) y = MatMul (w, v)"},
    {"PaddingMask", "float[N,2,S,8] q, float[N,2,8,T] k, float[N,2,T,8] v, bool[M,1,1,T] seen", "float[B,2,S,8] y",
     "m = Where (seen, none, filler) s = MatMul (q, k) masked = Add (s, m) w = Softmax <axis = -1> (masked) "
     "y = MatMul (w, v)"},
    {"Lengths", "float[N,2,S,8] q, float[N,2,8,T] k, float[N,2,T,8] v, int64[M] lengths", "float[B,2,S,8] y",
     R"(sizes = Shape (k) three = Constant <value_int = 3> () t = Gather (sizes, three)
        zero = Constant <value_int = 0> () one = Constant <value_int = 1> () at = Range (zero, t, one)
        axes = Constant <value_ints = [1, 2, 3]> () l = Unsqueeze (lengths, axes) seen = Less (at, l)
        m = Where (seen, none, filler) s = MatMul (q, k) masked = Add (s, m) w = Softmax <axis = -1> (masked)
        y = MatMul (w, v))"},
    {"Projected", "float[N,S,16] x, float[M,T,16] memory, float[16,16] wq, float[16,16] wk, float[16,16] wv",
     "float[B,S,16] y",
     R"(pq = MatMul (x, wq) rq = Reshape (pq, heads) q = Transpose <perm = [0, 2, 1, 3]> (rq)
        pk = MatMul (memory, wk) rk = Reshape (pk, heads) k = Transpose <perm = [0, 2, 3, 1]> (rk)
        pv = MatMul (memory, wv) rv = Reshape (pv, heads) v = Transpose <perm = [0, 2, 1, 3]> (rv)
        s = MatMul (q, k) scaled = Mul (s, scale) w = Softmax <axis = -1> (scaled) c = MatMul (w, v)
        t = Transpose <perm = [0, 2, 1, 3]> (c) y = Reshape (t, merged))"},
    {"Past", "float[N,2,S,8] q, float[M,2,T,8] k, float[M,2,T,8] v, float[M,2,P,8] pk, float[M,2,P,8] pv",
     "float[B,2,S,8] y, float[M,2,U,8] nk, float[M,2,U,8] nv",
     R"(nk = Concat <axis = 2> (pk, k) nv = Concat <axis = 2> (pv, v) kt = Transpose <perm = [0, 1, 3, 2]> (nk)
        s = MatMul (q, kt) w = Softmax <axis = -1> (s) y = MatMul (w, nv))"},
    {"Additive", "float[N,1,2] q, float[M,T,2] k, float[M,T,2] v", "float[B,1,2] y",
     R"(sum = Add (q, k) h = Tanh (sum) s = MatMul (h, column) w = Softmax <axis = 1> (s)
        row = Transpose <perm = [0, 2, 1]> (w) y = MatMul (row, v))"},
};

class BroadcastBatch : public testing::TestWithParam<Case> {};

TEST_P(BroadcastBatch, GivesWhatTheSourceGives) {
  const std::string text = text_of(GetParam());
  const Model source = parse_model(text);
  Model model = parse_model(text);
  Report report;
  optimize(model, report);
  size_t attentions = 0;
  model.graph->for_each_node([&](const Node& n) { attentions += is_attention(n) ? 1 : 0; });
  EXPECT_EQ(attentions, 1U);
  for (const Target target : {Target::kAttune, Target::kPortable, Target::kOnnx}) {
    Model result = model;
    result.graph = model.graph->clone();
    apply_target(result, target);
    for (const auto& [n, m] : {std::pair(1, 3), {3, 1}, {3, 3}, {1, 1}}) {
      SCOPED_TRACE("N " + std::to_string(n) + ", M " + std::to_string(m) + ", target " +
                   std::to_string(static_cast<int>(target)));
      VerifyOptions options;
      options.sizes = {{"N", n}, {"M", m}};
      const Verification v = verify(source, result, options);
      EXPECT_GE(v.compared, 3U);
      EXPECT_TRUE(v.passed()) << v.largest_relative;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, BroadcastBatch, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace attune
