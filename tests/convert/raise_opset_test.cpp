// A model brought to a later opset computes what it did.
#include "convert/raise_opset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "convert/target.h"
#include "graph/error.h"
#include "graph/io/text.h"
#include "ops/infer/infer.h"
#include "runtime/session.h"

namespace attune {
namespace {

Model parse(int opset, const std::string& graph) {
  return parse_model("<ir_version: 6, opset_import: [\"\" : " + std::to_string(opset) + "]> g " + graph);
}

std::vector<double> run(const Model& model) {
  std::vector<float> x(12);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 0.5F * static_cast<float>(i) - 2;
  Session session(Plan::compile(model), {.threads = 1});
  return session.run({{"x", Tensor::from<float>({3, 4}, x)}}).at("y").tensor().to_double();
}

class RaiseOpset : public testing::TestWithParam<std::pair<int, std::string>> {};

TEST_P(RaiseOpset, KeepsTheMeaning) {
  const auto& [opset, body] = GetParam();
  const std::string graph = "(float[3,4] x) => (float[a,b] y) { " + body + " }";
  const Model before = parse(opset, graph);
  Model after = parse(opset, graph);
  const Inference types(after);
  raise_opset(after, 21);
  EXPECT_EQ(after.opset(), 21);
  EXPECT_EQ(after.ir_version, 10);
  after.graph->verify();
  EXPECT_EQ(run(before), run(after));
}

INSTANTIATE_TEST_SUITE_P(
    Forms, RaiseOpset,
    testing::Values(std::pair{11, "y = ReduceSum <axes = [0], keepdims = 1> (x)"},
                    std::pair{17, "y = ReduceMean <axes = [-1], keepdims = 1> (x)"},
                    std::pair{13, "y = ReduceMax <axes = [1], keepdims = 1> (x)"},
                    std::pair{11, "u = Unsqueeze <axes = [0]> (x) y = Squeeze <axes = [0]> (u)"},
                    std::pair{11, "a, b = Split <axis = 1, split = [1, 3]> (x) y = Concat <axis = 1> (b, a)"},
                    std::pair{13, "a, b = Split <axis = 1> (x) y = Concat <axis = 1> (b, a)"},
                    std::pair{12, "y = Softmax <axis = 1> (x)"}, std::pair{11, "y = Dropout <ratio = 0.3> (x)"},
                    std::pair{10, "y = Clip <min = -1.0, max = 1.5> (x)"}));

TEST(RaiseOpset, RefusesWhatHasNoEqual) {
  for (const auto& [opset, body] : {std::pair{12, "y = Softmax <axis = 0> (x)"}, std::pair{9, "y = Relu (x)"}}) {
    Model m = parse(opset, std::string("(float[3,4] x) => (float[a,b] y) { ") + body + " }");
    const Inference types(m);
    EXPECT_THROW(raise_opset(m, 21), Error) << body;
  }
}

TEST(RaiseOpset, IsDoneForTargetsWhoseOperatorsNeedIt) {
  const auto model = [] {
    Model m = parse_model(
        "<ir_version: 6, opset_import: [\"\" : 11, \"ai.attune\" : 1]> g (float[3,4] x) => (float[a,b] y) {"
        "u = Unsqueeze <axes = [0]> (x) c = ai.attune.Attention <num_heads = 2> (u) y = Squeeze <axes = [0]> (c) }");
    const Inference types(m);
    return m;
  };
  for (const Target target : {Target::kPortable, Target::kOnnx}) {
    Model m = model();
    apply_target(m, target);
    EXPECT_EQ(m.opset(), 13);
    EXPECT_THAT(run(m), testing::Pointwise(testing::DoubleNear(1e-6), run(model())));
  }
}

TEST(RaiseOpset, LeavesNewerModelsAlone) {
  Model m = parse(22, "(float[3,4] x) => (float[a,b] y) { y = Relu (x) }");
  raise_opset(m, 13);
  EXPECT_EQ(m.opset(), 22);
}

}  // namespace
}  // namespace attune
