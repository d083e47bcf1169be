// Tasks that differ in cost, or cores in speed: whoever is done takes the next.
#pragma once

#include <algorithm>
#include <array>
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

// Calls f(part, task, next) once for each task of [0, tasks), as in_any_order() does, but each part has a stretch of
// them, in order, and takes the last ones of others only when its own are done. `next` is what it will do next, if
// nobody takes it away; -1 if that isn't known.
template <class F>
void in_own_order(int64_t parts, int64_t tasks, F&& f) {
  // What is left of a part's stretch: its begin in the low half, its end in the high one.
  constexpr int kMost = 256;
  parts = std::min<int64_t>({parts, std::max<int64_t>(tasks, 1), kMost});
  std::array<std::atomic<uint64_t>, kMost> left;
  const auto pack = [](int64_t begin, int64_t end) {
    return static_cast<uint64_t>(end) << 32U | static_cast<uint64_t>(begin);
  };
  for (int64_t i = 0; i < parts; ++i) left[static_cast<size_t>(i)] = pack(tasks * i / parts, tasks * (i + 1) / parts);
  parallel_parts(static_cast<int>(parts), [&](int part) {
    for (int64_t i = 0; i < parts; ++i) {
      std::atomic<uint64_t>& range = left[static_cast<size_t>((part + i) % parts)];
      uint64_t seen = range;
      while (true) {
        const auto begin = static_cast<int64_t>(seen & 0xffffffffU), end = static_cast<int64_t>(seen >> 32U);
        if (begin >= end) break;
        const bool own = i == 0;
        if (!range.compare_exchange_weak(seen, own ? pack(begin + 1, end) : pack(begin, end - 1))) continue;
        f(part, own ? begin : end - 1, own && begin + 1 < end ? begin + 1 : int64_t{-1});
        seen = range;
      }
    }
  });
}

}  // namespace attune
