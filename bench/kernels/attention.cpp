// The cost of attention over n queries and n keys: time, which grows as n*n*E, and memory beside operands and weights,
// which grows as n*E. Plain, causal, with weights put out; one query against n keys, as a decoding step has it; heads
// of growing width.
//   attune_attention_bench [LARGEST_N]      default 16384
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "ops/evaluate.h"
#include "ops/op.h"

namespace {

using namespace attune;

struct Form {
  const char* title;
  bool one_query = false, causal = false, weights = false;
};

struct Size {
  int64_t queries, keys, width;
};

Tensor states(int64_t length, int64_t width) {
  Tensor t = Tensor::allocate(DataType::kFloat, {1, 1, length, width});
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::generate_n(t.mutable_data<float>(), t.count(), [&] { return normal(random); });
  return t;
}

struct Cost {
  double seconds = 0, bytes = 0;
};

Cost measure(const Size& size, const Form& form) {
  Graph graph;
  std::vector<Datum> inputs{states(size.queries, size.width), states(size.keys, size.width),
                            states(size.keys, size.width)};
  std::vector<Value*> values;
  for (const Datum& input : inputs) {
    const Shape& s = input.tensor().shape();
    values.push_back(graph.add_input({}, ValueType::of(DataType::kFloat, Dims(s.begin(), s.end()))));
  }
  Attributes attributes;
  if (form.causal) attributes["causal"] = int64_t{1};
  const size_t outputs = form.weights ? 4 : 1;
  const Node* node = graph.add_node("ai.attune", "Attention", values, outputs, attributes);
  const auto kernel = find_op("ai.attune", "Attention", 1)->prepare(SimpleContext(*node, 1));
  BufferPool pool;
  Cost best{1e9, 0};
  const auto start = std::chrono::steady_clock::now();
  // At least three runs, then as many as fit into half a second.
  for (int i = 0; i < 3 || std::chrono::steady_clock::now() - start < std::chrono::milliseconds(500); ++i) {
    SimpleCall call(inputs, outputs, &pool);
    for (size_t present = 1; present + 1 < outputs; ++present) call.set_wanted(present, false);
    const auto before = std::chrono::steady_clock::now();
    kernel->run(call);
    best.seconds =
        std::min(best.seconds, std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count());
  }
  const int64_t shown = form.weights ? size.queries * size.keys : 0;
  best.bytes = static_cast<double>(pool.peak_bytes()) - static_cast<double>(shown) * sizeof(float);
  return best;
}

void print_title(const char* title, const char* variable) {
  fmt::print("{}\n{:>8} {:>12} {:>10} {:>12} {:>14}\n", title, variable, "ms", "GFLOP/s", "extra kB",
             fmt::format("kB / {}", variable));
}

void print_row(const Size& size, const Form& form, int64_t variable) {
  const Cost cost = measure(size, form);
  const auto pairs =
      static_cast<double>(size.queries) * static_cast<double>(form.causal ? (size.keys + 1) / 2 : size.keys);
  fmt::print("{:>8} {:>12.3f} {:>10.1f} {:>12.0f} {:>14.3f}\n", variable, cost.seconds * 1e3,
             4 * pairs * static_cast<double>(size.width) / cost.seconds / 1e9, cost.bytes / 1e3,
             cost.bytes / 1e3 / static_cast<double>(variable));
}

}  // namespace

int main(int argc, char** argv) {
  constexpr int64_t kWidth = 64, kLargestShown = 8192;  // whose weights are 256 MB
  const int64_t largest = argc > 1 ? std::stol(argv[1]) : 16384;
  const Form forms[] = {{.title = "n queries, n keys"},
                        {.title = "n queries, n keys, causal", .causal = true},
                        {.title = "n queries, n keys, weights put out", .weights = true},
                        {.title = "1 query, n keys", .one_query = true}};
  for (const Form& form : forms) {
    print_title(form.title, "n");
    for (int64_t n = 128; n <= (form.weights ? std::min(largest, kLargestShown) : largest); n *= 2)
      print_row({form.one_query ? 1 : n, n, kWidth}, form, n);
  }
  print_title("1024 queries, 1024 keys, heads of width E", "E");
  for (int64_t width = 16; width <= 256; width *= 2) print_row({1024, 1024, width}, forms[0], width);
}
