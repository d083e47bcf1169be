#include "ops/support/parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "ops/support/any_order.h"

namespace attune {
namespace {

using testing::Each;

// A host's pool: a thread for each part.
class Threads : public Workers {
 public:
  int count() const override { return 3; }
  void run(int parts, void (*f)(void*, int), void* data) override {
    ++calls;
    std::vector<std::jthread> threads;
    for (int part = 0; part < parts; ++part) threads.emplace_back(f, data, part);
  }
  int calls = 0;
};

std::vector<int> visits(int64_t count, int64_t grain) {
  std::vector<int> visits(static_cast<size_t>(count));
  parallel_for(count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
  });
  return visits;
}

#if !defined(__SANITIZE_THREAD__)  // has threads of its own instead of OpenMP's (see parallel.cpp)
// OpenMP's threads of this thread while it lives.
struct ThreadPinning {
  explicit ThreadPinning(int threads) { omp_set_num_threads(threads); }
  ~ThreadPinning() { omp_set_num_threads(before); }
  int before = omp_get_max_threads();
};

// The status of a forked process that calls `f`, which has 20 s; 0 if `f` gives true.
int status_in_child(const std::function<bool()>& f) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(f() ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

// A forked process has none of OpenMP's threads that its parent used, but may use others.
TEST(Parallel, InAForkedProcess) {
  const auto works = [] {
    const std::vector<int> all = visits(1000, 1);
    return std::all_of(all.begin(), all.end(), [](int n) { return n == 1; });
  };
  ThreadPinning two(2);
  ASSERT_TRUE(works());
  EXPECT_EQ(status_in_child(works), 0);
  EXPECT_EQ(status_in_child([] { return parallel_width() == 1; }), 0);
  EXPECT_EQ(status_in_child([&] {
              bool wide = false;
              std::thread([&] {
                omp_set_num_threads(2);
                wide = parallel_width() == 2 && works();
              }).join();
              return wide;
            }),
            0);
  // A process whose thread hasn't computed yet loses nothing.
  std::thread([&] {
    omp_set_num_threads(2);
    EXPECT_EQ(status_in_child([&] { return parallel_width() == 2 && works(); }), 0);
  }).join();
  EXPECT_EQ(parallel_width(), 2);
}
#endif

TEST(Parallel, EveryItemOnce) {
  for (const int64_t count : {1, 2, 7, 1000}) EXPECT_THAT(visits(count, 1), Each(1));
}

TEST(Parallel, EveryItemOnceOnAHostsThreads) {
  Threads threads;
  const WorkersScope scope(threads);
  EXPECT_EQ(parallel_width(), 3);
  for (const int64_t count : {1, 2, 7, 1000}) EXPECT_THAT(visits(count, 1), Each(1));
  EXPECT_EQ(threads.calls, 3);  // one item needs no threads
  EXPECT_THAT(visits(100, 200), Each(1));
  EXPECT_EQ(threads.calls, 3);  // nor do few
}

TEST(Parallel, EveryTaskOnceInOwnOrder) {
  Threads threads;
  const WorkersScope scope(threads);
  for (const int64_t parts : {1, 2, 3, 5})
    for (const int64_t tasks : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> visits(static_cast<size_t>(tasks));
      std::array<int64_t, 5> expected;  // of each part; -1: not known
      expected.fill(-1);
      in_own_order(parts, tasks, [&](int part, int64_t task, int64_t next) {
        ++visits[static_cast<size_t>(task)];
        int64_t& known = expected[static_cast<size_t>(part)];
        // What was announced comes, or has been taken by another.
        if (known >= 0 && known != task) {
          EXPECT_EQ(next, -1);
        }
        known = next;
      });
      EXPECT_THAT(std::vector<int>(visits.begin(), visits.end()), Each(1)) << parts << " parts, " << tasks << " tasks";
    }
}

// A part that waits for all others gets none of their tasks, and they do its own.
TEST(Parallel, OthersDoTheTasksOfASlowPart) {
  Threads threads;
  const WorkersScope scope(threads);
  std::atomic<int> done{0};
  std::atomic<int> slow_ones{0};
  in_own_order(3, 90, [&](int part, int64_t, int64_t) {
    if (part == 1) {
      ++slow_ones;
      while (done < 89) std::this_thread::yield();
    }
    ++done;
  });
  EXPECT_EQ(done, 90);
  EXPECT_LE(slow_ones, 1);
}

TEST(Parallel, PartsDontSplitAgain) {
  Threads threads;
  const WorkersScope scope(threads);
  std::atomic<int> widths{0};
  parallel_parts(3, [&](int) {
    widths += parallel_width();
    EXPECT_THAT(visits(100, 1), Each(1));
  });
  EXPECT_EQ(widths, 3);
  EXPECT_EQ(threads.calls, 1);
}

// On OpenMP's threads and on a host's: an exception of a part reaches the caller when the other parts are done.
TEST(Parallel, AnExceptionReachesTheCaller) {
  const auto check = [] {
    std::atomic<int> done{0};
    EXPECT_THROW(run_parts(
                     3,
                     [](void* data, int part) {
                       if (part != 1) throw std::length_error("part");
                       ++*static_cast<std::atomic<int>*>(data);
                     },
                     &done),
                 std::length_error);
    EXPECT_EQ(done, 1);
    EXPECT_THAT(visits(1000, 1), Each(1));  // and work goes on
  };
  check();
  Threads threads;
  const WorkersScope scope(threads);
  check();
  EXPECT_EQ(parallel_width(), 3);
}

TEST(Parallel, TheScopeIsThatOfTheThread) {
  const int before = parallel_width();
  {
    Threads threads;
    const WorkersScope scope(threads);
    int other = 0;
    std::jthread([&] { other = parallel_width(); }).join();
    EXPECT_EQ(other, before);
  }
  EXPECT_EQ(parallel_width(), before);
}

}  // namespace
}  // namespace attune
