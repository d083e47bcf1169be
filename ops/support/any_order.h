// Tasks that differ in cost, or cores in speed: whoever is done takes the next.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "ops/support/parallel.h"

namespace attune {

// Calls f(part, task) once for each task of [0, tasks), on up to `parts` threads; those of a part run one after the
// other.
template <class F>
void in_any_order(int parts, int64_t tasks, F&& f) {
  std::atomic<int64_t> next{0};
  parallel_parts(static_cast<int>(std::min<int64_t>(parts, std::max<int64_t>(tasks, 1))), [&](int part) {
    for (int64_t task = next++; task < tasks; task = next++) f(part, task);
  });
}

}  // namespace attune
