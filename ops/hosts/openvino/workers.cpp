#include "ops/hosts/openvino/workers.h"

#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include <atomic>

namespace attune::openvino {

namespace tbb = oneapi::tbb;

int ArenaWorkers::count() const { return tbb::this_task_arena::max_concurrency(); }

void ArenaWorkers::run(int parts, void (*f)(void*, int), void* data) {
  // The atomics order the parts within the call for the thread sanitizer, which doesn't see into TBB.
  std::atomic<bool> ready{true};
  std::atomic<int> done{0};
  tbb::this_task_arena::isolate([&] {
    tbb::parallel_for(
        tbb::blocked_range<int>(0, parts, 1),
        [&](const tbb::blocked_range<int>& range) {
          (void)ready.load(std::memory_order_acquire);
          for (int part = range.begin(); part != range.end(); ++part) f(data, part);
          done.fetch_add(1, std::memory_order_release);
        },
        tbb::simple_partitioner());
  });
  (void)done.load(std::memory_order_acquire);
}

}  // namespace attune::openvino
