// Products of rows with constant weights, for each type in which weights are stored: the time of one, the best within
// half a second, and the products and sums in it. With int8, int4 and words x is rounded in it.
//   attune_product_bench [THREADS]      default 1
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/support/cast.h"
#include "ops/support/panel_weights.h"

namespace {

using namespace attune;

struct Size {
  int64_t rows, inner, columns;
};

Tensor normal_numbers(const Shape& shape, float size) {
  Tensor t = Tensor::allocate(DataType::kFloat, shape);
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, size);
  std::generate_n(t.mutable_data<float>(), t.count(), [&] { return normal(random); });
  return t;
}

Tensor any_bits(DataType type, const Shape& shape) {
  Tensor t = Tensor::allocate(type, shape);
  std::mt19937 random(1);
  std::generate_n(t.mutable_raw(), t.bytes(), [&] { return static_cast<std::byte>(random()); });
  return t;
}

PanelWeights integers(DataType type, const Size& s, int64_t groups) {
  Tensor scales = Tensor::allocate(DataType::kFloat, {groups, s.columns});
  std::fill_n(scales.mutable_data<float>(), scales.count(), 1e-3F);
  return PanelWeights::pack_quantized(any_bits(type, {s.inner, s.columns}), false, scales,
                                      groups > 1 ? s.inner / groups : 0, true);
}

PanelWeights halves(const Size& s, bool words) {
  const Tensor w = cast(normal_numbers({s.inner, s.columns}, 0.02F), DataType::kFloat16, nullptr);
  return words ? PanelWeights::pack_int16(w, false) : PanelWeights::pack(w, false);
}

struct Type {
  const char* name;
  PanelWeights (*pack)(const Size&);
};

constexpr Type kTypes[] = {
    {"float32",
     [](const Size& s) {
       return PanelWeights::pack(normal_numbers({s.inner, s.columns}, 0.02F), false);
     }},
    {"float16", [](const Size& s) { return halves(s, false); }},
    {"words", [](const Size& s) { return halves(s, true); }},
    {"int8", [](const Size& s) { return integers(DataType::kInt8, s, 1); }},
    {"int4, groups of 64", [](const Size& s) { return integers(DataType::kInt4, s, s.inner / 64); }},
};

// The weights in turns.
double seconds_of(std::span<const PanelWeights> weights, const Size& s) {
  const Tensor x = normal_numbers({s.rows, s.inner}, 1);
  Tensor y = Tensor::allocate(DataType::kFloat, {s.rows, s.columns});
  BufferPool pool;
  std::vector<double> times;
  const auto start = std::chrono::steady_clock::now();
  for (size_t i = 0; i < 3 || std::chrono::steady_clock::now() - start < std::chrono::milliseconds(500); ++i) {
    const auto before = std::chrono::steady_clock::now();
    weights[i % weights.size()].multiply(x.data<float>(), s.inner, s.rows, y.mutable_data<float>(), s.columns, {},
                                         &pool);
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count());
  }
  std::ranges::sort(times);
  return weights.size() > 1 ? times[times.size() / 2] : times[0];
}

}  // namespace

int main(int argc, char** argv) {
  omp_set_num_threads(argc > 1 ? std::stoi(argv[1]) : 1);
  const bool cold = argc > 2 && std::string_view(argv[2]) == "cold";
  constexpr size_t kColdBytes = 96 << 20;
  constexpr Size kSizes[] = {{1, 512, 32768},  {8, 512, 32768},  {16, 512, 32768}, {32, 512, 32768},
                             {64, 512, 2048},  {256, 512, 512},  {256, 512, 1536}, {256, 512, 2048},
                             {256, 2048, 512}, {256, 768, 3072}, {256, 3072, 768}};
  fmt::print("{}\n{:>20} {:>8} {:>8} {:>8} {:>10} {:>10} {:>8}\n", PanelWeights::instruction_set(), "weights", "rows",
             "inner", "columns", "us", "GFLOP/s", "GB/s");
  for (const Size& s : kSizes)
    for (const Type& type : kTypes) {
      if (argc > 3 && type.name != std::string_view(argv[3])) continue;
      const PanelWeights w = type.pack(s);
      std::vector<PanelWeights> weights{w};
      const PanelWeights* const parts[] = {&w};  // put side by side they are a copy
      while (cold && weights.size() * w.bytes() < kColdBytes) weights.push_back(PanelWeights::side_by_side(parts));
      const double seconds = seconds_of(weights, s);
      const double flops = 2.0 * static_cast<double>(s.rows * s.inner) * static_cast<double>(s.columns);
      fmt::print("{:>20} {:>8} {:>8} {:>8} {:>10.1f} {:>10.1f} {:>8.1f}\n", type.name, s.rows, s.inner, s.columns,
                 seconds * 1e6, flops / seconds / 1e9, static_cast<double>(w.bytes()) / seconds / 1e9);
    }
}
