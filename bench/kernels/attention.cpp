// The cost of attention over n queries and n keys: time, which grows as n*n*E, and memory beside the operands, which
// grows as n*E. Causal and not; then one query against n keys, as a decoding step has it.
//   attune_attention_bench [LARGEST_N]      default 16384
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "ops/evaluate.h"
#include "ops/op.h"

namespace {

using namespace attune;

constexpr int64_t kHeads = 1, kWidth = 64;

Tensor states(int64_t length) {
  Tensor t = Tensor::allocate(DataType::kFloat, {1, kHeads, length, kWidth});
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::generate_n(t.mutable_data<float>(), t.count(), [&] { return normal(random); });
  return t;
}

struct Cost {
  double seconds = 0, bytes = 0;
};

Cost measure(int64_t queries, int64_t keys, bool causal) {
  Graph graph;
  std::vector<Datum> inputs{states(queries), states(keys), states(keys)};
  std::vector<Value*> values;
  for (const Datum& input : inputs) {
    const Shape& s = input.tensor().shape();
    values.push_back(graph.add_input({}, ValueType::of(DataType::kFloat, Dims(s.begin(), s.end()))));
  }
  Attributes attributes;
  if (causal) attributes["causal"] = int64_t{1};
  const Node* node = graph.add_node("ai.attune", "Attention", values, 1, attributes);
  const auto kernel = find_op("ai.attune", "Attention", 1)->prepare(SimpleContext(*node, 1));
  BufferPool pool;
  Cost best{1e9, 0};
  const auto start = std::chrono::steady_clock::now();
  // At least three runs, then as many as fit into half a second.
  for (int i = 0; i < 3 || std::chrono::steady_clock::now() - start < std::chrono::milliseconds(500); ++i) {
    SimpleCall call(inputs, 1, &pool);
    const auto before = std::chrono::steady_clock::now();
    kernel->run(call);
    best.seconds =
        std::min(best.seconds, std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count());
  }
  best.bytes = static_cast<double>(pool.peak_bytes());
  return best;
}

void print(const char* title, int64_t largest, bool one_query, bool causal) {
  fmt::print("{}\n{:>8} {:>12} {:>10} {:>12} {:>14}\n", title, "n", "ms", "GFLOP/s", "kB", "kB / n");
  for (int64_t n = 128; n <= largest; n *= 2) {
    const Cost cost = measure(one_query ? 1 : n, n, causal);
    const double pairs = static_cast<double>(n) * static_cast<double>(one_query ? 1 : causal ? (n + 1) / 2 : n);
    fmt::print("{:>8} {:>12.3f} {:>10.1f} {:>12.0f} {:>14.3f}\n", n, cost.seconds * 1e3,
               4 * pairs * kHeads * kWidth / cost.seconds / 1e9, cost.bytes / 1e3,
               cost.bytes / 1e3 / static_cast<double>(n));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t largest = argc > 1 ? std::stol(argv[1]) : 16384;
  print("n queries, n keys", largest, false, false);
  print("n queries, n keys, causal", largest, false, true);
  print("1 query, n keys", largest, true, false);
}
