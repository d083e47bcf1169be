// Parallel work of kernels in a TBB arena.
#include "ops/hosts/openvino/workers.h"

#include <gtest/gtest.h>
#include <oneapi/tbb/task_arena.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>
#include <vector>

namespace attune::openvino {
namespace {

TEST(ArenaWorkers, AreAsManyAsTheArenaHasThreads) {
  for (const int threads : {1, 2, 5}) {
    oneapi::tbb::task_arena arena(threads);
    arena.execute([&] { EXPECT_EQ(ArenaWorkers().count(), threads); });
  }
}

TEST(ArenaWorkers, EachPartRunsOnce) {
  oneapi::tbb::task_arena arena(3);
  for (const int parts : {1, 2, 3, 50}) {
    std::vector<int> runs(static_cast<size_t>(parts));
    arena.execute([&] {
      ArenaWorkers workers;
      const WorkersScope scope(workers);
      EXPECT_EQ(parallel_width(), 3);
      parallel_parts(parts, [&](int part) { ++runs[static_cast<size_t>(part)]; });
    });
    EXPECT_EQ(runs, std::vector<int>(static_cast<size_t>(parts), 1));
  }
}

// A part waits for the other: on one thread that would never end.
TEST(ArenaWorkers, PartsRunAtTheSameTime) {
  oneapi::tbb::task_arena arena(2);
  arena.execute([&] {
    ArenaWorkers workers;
    const WorkersScope scope(workers);
    std::atomic<int> arrived{0};
    const auto late = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    std::atomic<bool> met{true};
    parallel_parts(2, [&](int) {
      ++arrived;
      while (arrived < 2 && std::chrono::steady_clock::now() < late) std::this_thread::yield();
      if (arrived < 2) met = false;
    });
    EXPECT_TRUE(met);
  });
}

TEST(ArenaWorkers, AnArenaOfOneThreadUsesTheCaller) {
  oneapi::tbb::task_arena arena(1);
  std::set<std::thread::id> used;
  std::thread::id caller;
  arena.execute([&] {
    caller = std::this_thread::get_id();
    ArenaWorkers workers;
    const WorkersScope scope(workers);
    parallel_parts(8, [&](int) { used.insert(std::this_thread::get_id()); });
  });
  EXPECT_EQ(used, std::set<std::thread::id>{caller});
}

}  // namespace
}  // namespace attune::openvino
