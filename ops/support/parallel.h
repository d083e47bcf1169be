// Splitting work over the threads of the process's OpenMP pool (the one that oneDNN uses).
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace attune {

// Elements below which a memory-bound loop is faster on one thread.
inline constexpr int64_t kParallelGrain = 32768;

// Calls f(begin, end) for disjoint parts of [0, count), each of at least `grain` items (unless there are fewer).
// `f` must not throw.
template <class F>
void parallel_for(int64_t count, int64_t grain, F&& f) {
  if (count <= grain || omp_in_parallel()) {
    f(int64_t{0}, count);
    return;
  }
  const auto threads =
      static_cast<int>(std::min<int64_t>(omp_get_max_threads(), (count + grain - 1) / std::max<int64_t>(grain, 1)));
  if (threads <= 1) {
    f(int64_t{0}, count);
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    const int64_t parts = omp_get_num_threads(), part = omp_get_thread_num();
    const int64_t each = count / parts, rest = count % parts;
    const int64_t begin = part * each + std::min(part, rest);
    f(begin, begin + each + (part < rest ? 1 : 0));
  }
}

}  // namespace attune
