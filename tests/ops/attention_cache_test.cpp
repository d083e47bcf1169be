// Caches of ai.attune::Attention: growth in place, decoding step by step, parts by fixed inputs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unordered_map>

#include "ops/op.h"
#include "ops/support/attention_cache.h"
#include "ops/support/attention_parts.h"
#include "tests/support/attention_cases.h"

namespace attune {
namespace {

using test::AttentionCase;
using test::CaseGenerator;
using testing::DoubleNear;
using testing::Pointwise;

HeadsView rows_of(const Tensor& t) { return view_heads(t, t.dim(1), "rows"); }

TEST(AttentionCache, GrowsInPlaceWhereNobodyElseHoldsIt) {
  CaseGenerator g(1);
  for (const auto& [b, h] : {std::pair<int64_t, int64_t>{1, 1}, {1, 3}, {2, 1}, {2, 3}}) {
    Tensor cache = Tensor::allocate(DataType::kFloat, {b, h, 0, 4});
    std::vector<Tensor> steps;
    const std::byte* memory = nullptr;
    for (int step = 0; step < 60; ++step) {
      steps.push_back(g.normal({b, h, 1, 4}));
      cache = grow_cache(std::move(cache), rows_of(steps.back()), nullptr);
      if (step == 0) memory = cache.raw();
      ASSERT_EQ(cache.raw(), memory) << "step " << step << " copied";
    }
    for (int64_t t = 0; t < 60; ++t)
      for (int64_t i = 0; i < b * h; ++i)
        for (int64_t e = 0; e < 4; ++e)
          ASSERT_EQ(rows_of(cache).row<float>(i / h, i % h, t)[e],
                    steps[static_cast<size_t>(t)].data<float>()[i * 4 + e]);
  }
}

TEST(AttentionCache, CopiesWhatIsSharedOrFull) {
  CaseGenerator g(2);
  const Tensor added = g.normal({2, 3, 1, 4});
  const Tensor held = grow_cache(g.normal({2, 3, 5, 4}), rows_of(added), nullptr);
  const std::vector<double> before = held.to_double();
  const Tensor grown = grow_cache(held, rows_of(added), nullptr);
  EXPECT_NE(grown.raw(), held.raw());
  EXPECT_EQ(held.to_double(), before);
  Tensor full = g.normal({2, 3, 5, 4});
  const std::byte* memory = full.raw();
  EXPECT_NE(grow_cache(std::move(full), rows_of(added), nullptr).raw(), memory);
}

TEST(AttentionCache, KernelAppendsToThePastItIsGiven) {
  CaseGenerator g(3);
  AttentionCase c;
  c[kAttentionQuery] = g.normal({2, 1, 8});
  c.attributes["num_heads"] = int64_t{2};
  c[kAttentionPastKey] = Tensor::allocate(DataType::kFloat, {2, 2, 0, 4});
  c[kAttentionPastValue] = Tensor::allocate(DataType::kFloat, {2, 2, 0, 4});
  c.wanted[kAttentionPresentKey] = c.wanted[kAttentionPresentValue] = true;
  Graph graph;
  const Node* node = c.add_to(graph);
  const auto kernel = find_op("ai.attune", "Attention", 1)->prepare(SimpleContext(*node, 1));
  Datum key(std::move(c[kAttentionPastKey])), value(std::move(c[kAttentionPastValue]));
  const std::byte* memory = nullptr;
  for (int64_t step = 0; step < 40; ++step) {
    std::vector<Datum> inputs(c.inputs.begin(), c.inputs.begin() + kAttentionPastKey);
    inputs.push_back(std::move(key));
    inputs.push_back(std::move(value));
    SimpleCall call(std::move(inputs), node->output_count(), nullptr);
    kernel->run(call);
    key = std::move(call.outputs()[kAttentionPresentKey]);
    value = std::move(call.outputs()[kAttentionPresentValue]);
    EXPECT_EQ(key.tensor().dim(2), step + 1);
    if (step == 0) memory = key.tensor().raw();
    ASSERT_EQ(key.tensor().raw(), memory) << "step " << step;
  }
}

TEST(AttentionCache, DecodingStepByStepGivesThePrefill) {
  for (const DataType type : {DataType::kFloat, DataType::kFloat16}) {
    CaseGenerator g(4, type);
    const int64_t length = 70, width = 24;
    const Tensor states = g.normal({2, length, width});
    AttentionCase whole;
    whole[kAttentionQuery] = states;
    for (size_t i = 0; i < 3; ++i) whole.inputs[kAttentionQueryWeight + i] = g.normal({width, width}, 0.2);
    whole[kAttentionKeyBias] = g.normal({width});
    whole.attributes["num_heads"] = int64_t{4};
    whole.attributes["causal"] = int64_t{1};
    whole.attributes["window"] = std::vector<int64_t>{30, -1};
    const auto prefill = whole.run()[kAttentionContext].to_double();

    AttentionCase step = whole;
    step[kAttentionPastKey] = Tensor::allocate(type, {2, 4, 0, width / 4});
    step[kAttentionPastValue] = Tensor::allocate(type, {2, 4, 0, width / 4});
    step.wanted[kAttentionPresentKey] = step.wanted[kAttentionPresentValue] = true;
    const size_t element = storage_bytes(type, 1);
    for (int64_t t = 0; t < length; ++t) {
      Tensor now = Tensor::allocate(type, {2, 1, width});
      for (int64_t b = 0; b < 2; ++b)
        std::memcpy(now.mutable_raw() + static_cast<size_t>(b * width) * element,
                    states.raw() + static_cast<size_t>((b * length + t) * width) * element,
                    static_cast<size_t>(width) * element);
      step[kAttentionQuery] = now;
      const auto out = step.run();
      step[kAttentionPastKey] = out[kAttentionPresentKey];
      step[kAttentionPastValue] = out[kAttentionPresentValue];
      const auto context = out[kAttentionContext].to_double();
      for (int64_t b = 0; b < 2; ++b)
        for (int64_t f = 0; f < width; ++f)
          ASSERT_NEAR(context[static_cast<size_t>(b * width + f)],
                      prefill[static_cast<size_t>((b * length + t) * width + f)],
                      type == DataType::kFloat ? 1e-5 : 2e-3)
              << "step " << t;
    }
  }
}

// Runs the nodes of a graph whose inputs are `data`.
std::vector<Tensor> run_graph(const Graph& graph, const std::vector<Tensor>& data, const Node& last) {
  std::unordered_map<const Value*, Datum> values;
  for (size_t i = 0; i < graph.inputs().size(); ++i) values[graph.inputs()[i]] = data[i];
  std::vector<Tensor> out;
  for (const Node* node : graph.topological_order()) {
    std::vector<Datum> inputs;
    for (const Value* v : node->inputs())
      inputs.push_back(!v ? Datum() : v->constant() ? Datum(*v->constant()) : values.at(v));
    const auto outputs = evaluate(*node, node->domain().empty() ? 18 : 1, std::move(inputs));
    for (size_t i = 0; i < outputs.size(); ++i)
      if (node->output(i)) values[node->output(i)] = outputs[i];
  }
  for (size_t i = 0; i < last.output_count(); ++i)
    out.push_back(last.output(i) ? values.at(last.output(i)).tensor() : Tensor());
  return out;
}

TEST(AttentionParts, ProjectedMemoryMovesOutOfTheNode) {
  int split = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const AttentionCase c = CaseGenerator(seed).next();
    const auto expected = c.run();
    Graph graph;
    Node* node = c.add_to(graph);
    const auto fixed = [&](const Value* v) {
      for (size_t i = kAttentionKey; i <= kAttentionValueBias; ++i)
        if (i != kAttentionQueryWeight && i != kAttentionQueryBias && v == node->input(i)) return true;
      return false;
    };
    if (!split_by_fixed_inputs(graph, *node, fixed)) continue;
    ++split;
    graph.verify();
    std::vector<Tensor> data;
    for (const Tensor& t : c.inputs)
      if (t.defined()) data.push_back(t);
    const auto got = run_graph(graph, data, *node);
    for (size_t i = 0; i < got.size(); ++i) {
      if (!got[i].defined()) continue;
      const auto a = got[i].to_double(), e = expected[i].to_double();
      ASSERT_EQ(a.size(), e.size());
      for (size_t k = 0; k < a.size(); ++k)
        ASSERT_TRUE(a[k] == e[k] || (std::isnan(a[k]) && std::isnan(e[k])) ||
                    std::abs(a[k] - e[k]) < 1e-4 * std::max(1.0, std::abs(e[k])))
            << "seed " << seed << c.describe() << ": output " << i << " is " << a[k] << ", expected " << e[k];
    }
  }
  EXPECT_GT(split, 50);
}

}  // namespace
}  // namespace attune
