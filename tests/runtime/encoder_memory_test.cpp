// Memory of an encoder as a function of the length of the source.
#include <gtest/gtest.h>

#include "graph/io/text.h"
#include "runtime/session.h"

namespace attune {
namespace {

constexpr int64_t kWidth = 32;

// Two layers: attention over itself with projections, a feed-forward layer, residuals.
Model encoder() {
  Model model = parse_model(R"(<ir_version: 10, opset_import: ["" : 18, "ai.attune" : 1]>
    encoder (float[1, n, 32] x, float[32, 32] w, float[32, 128] up, float[128, 32] down) => (float[1, n, 32] y) {
      a = ai.attune.Attention <num_heads = 4> (x, , , w, w, w)
      b = Add(x, a)
      c = MatMul(b, up)
      d = Relu(c)
      e = MatMul(d, down)
      f = Add(b, e)
      g = ai.attune.Attention <num_heads = 4> (f, , , w, w, w)
      h = Add(f, g)
      i = MatMul(h, up)
      j = Relu(i)
      k = MatMul(j, down)
      y = Add(h, k)
    })");
  return model;
}

size_t peak_bytes(const std::shared_ptr<const Plan>& plan, int64_t length) {
  Session session(plan, {.threads = 1});
  const auto filled = [](const Shape& shape) {
    Tensor t = Tensor::allocate(DataType::kFloat, shape);
    std::fill_n(t.mutable_data<float>(), t.count(), 0.01F);
    return t;
  };
  TensorMap inputs;
  inputs["x"] = filled({1, length, kWidth});
  inputs["w"] = filled({kWidth, kWidth});
  inputs["up"] = filled({kWidth, 4 * kWidth});
  inputs["down"] = filled({4 * kWidth, kWidth});
  session.run(std::move(inputs));
  return session.pool().peak_bytes();
}

TEST(EncoderMemory, GrowsLinearlyWithTheSource) {
  const auto plan = Plan::compile(encoder());
  const size_t short_source = peak_bytes(plan, 1024), long_source = peak_bytes(plan, 8192);
  EXPECT_LT(static_cast<double>(long_source), 8.5 * static_cast<double>(short_source));
  // One matrix of scores alone would be four times as much as this.
  EXPECT_LT(long_source, 8192U * 8192U);
}

}  // namespace
}  // namespace attune
