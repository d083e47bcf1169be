// Memory of many sessions, as the system sees it.
#include <gtest/gtest.h>
#include <malloc.h>

#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "graph/graph.h"
#include "runtime/session.h"

namespace attune {
namespace {

constexpr int64_t kWidth = 2048;
constexpr size_t kWeightBytes = size_t{kWidth} * kWidth * sizeof(float);

// Resident memory of this process, without what the heap keeps for later.
size_t resident_bytes() {
  ::malloc_trim(0);
  std::ifstream status("/proc/self/status");
  std::string word;
  size_t kilobytes = 0;
  while (status >> word)
    if (word == "VmRSS:") status >> kilobytes;
  return kilobytes * 1024;
}

std::shared_ptr<const Plan> plan_with_weights() {
  Model model;
  model.graph = std::make_shared<Graph>();
  model.opset_imports[""] = 18;
  Value* x = model.graph->add_input("x", ValueType::of(DataType::kFloat, Dims{Dim(1), Dim(kWidth)}));
  Tensor weights = Tensor::allocate(DataType::kFloat, {kWidth, kWidth});
  for (int64_t i = 0; i < weights.count(); ++i) weights.mutable_data<float>()[i] = static_cast<float>(i % 7);
  Node* product = model.graph->add_node("", "MatMul", {x, model.graph->add_constant(weights, "w")}, 1, {});
  model.graph->add_output(product->output(0));
  return Plan::compile(model);
}

TEST(SharedWeights, OneAndSixtyFourSessionsAtOnceHoldOneCopy) {
  const auto plan = plan_with_weights();
  const auto run = [&](Session& session) {
    Tensor x = Tensor::allocate(DataType::kFloat, {1, kWidth});
    std::fill_n(x.mutable_data<float>(), kWidth, 1.0F);
    TensorMap inputs;
    inputs["x"] = x;
    session.run(std::move(inputs));
  };
  std::vector<Session> sessions;
  sessions.emplace_back(plan, SessionOptions{.threads = 1});
  run(sessions.front());
  const size_t one = resident_bytes();
  for (int i = 1; i < 64; ++i) sessions.emplace_back(plan, SessionOptions{.threads = 1});
  std::vector<std::thread> threads;
  for (Session& session : sessions) threads.emplace_back([&] { run(session); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_LT(resident_bytes(), one + kWeightBytes);
}

TEST(SharedWeights, PlansOfEqualWeightsHoldOneCopy) {
  const auto first = plan_with_weights();
  const size_t one = resident_bytes();
  std::vector<std::shared_ptr<const Plan>> plans;
  for (int i = 0; i < 24; ++i) plans.push_back(plan_with_weights());
  EXPECT_LT(resident_bytes(), one + 8 * kWeightBytes);
}

}  // namespace
}  // namespace attune
