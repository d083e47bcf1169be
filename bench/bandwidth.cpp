// Read bandwidth of memory: what bounds a decoding step, which reads every weight once.
//   attune_bandwidth [THREADS [MEGABYTES]]
// Prints GB/s (10^9 bytes) for 1 .. THREADS threads: the best of several passes over a block far larger than the
// caches.
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>

namespace {

uint64_t read_all(const uint64_t* data, size_t count) {
  uint64_t all = 0;
#pragma omp simd reduction(^ : all)
  for (size_t i = 0; i < count; ++i) all ^= data[i];
  return all;
}

// Seconds of one pass, each thread over its own part.
double pass(const uint64_t* data, size_t count, int threads) {
  static volatile uint64_t sink;
  uint64_t all = 0;
  const auto start = std::chrono::steady_clock::now();
#pragma omp parallel num_threads(threads) reduction(^ : all)
  {
    const size_t part = count / static_cast<size_t>(threads) / 512 * 512;
    all ^= read_all(data + part * static_cast<size_t>(omp_get_thread_num()), part);
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  sink = all;
  return taken.count();
}

}  // namespace

int main(int argc, char** argv) {
  const int most = argc > 1 ? std::max(1, std::atoi(argv[1])) : omp_get_max_threads();
  const size_t bytes = (argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 512) << 20;
  const std::unique_ptr<uint64_t, decltype(&std::free)> data(
      static_cast<uint64_t*>(std::aligned_alloc(4096, std::max<size_t>(bytes, 4096))), &std::free);
  if (!data) {
    fmt::print(stderr, "{} bytes can't be had\n", bytes);
    return 1;
  }
  const size_t count = bytes / sizeof(uint64_t);
  std::fill(data.get(), data.get() + count, 1);
  for (int threads = 1; threads <= most; ++threads) {
    double best = 1e9;
    for (int i = 0; i < 8; ++i) best = std::min(best, pass(data.get(), count, threads));
    fmt::print("{} thread(s): {:.1f} GB/s\n", threads, static_cast<double>(bytes) / best / 1e9);
  }
}
