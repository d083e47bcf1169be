#include "ops/support/parallel.h"

#include <omp.h>

#include "ops/support/host_threads.h"

#if defined(__SANITIZE_THREAD__)
#include <thread>
#include <vector>
#endif

namespace attune {
namespace {

thread_local Workers* workers = nullptr;
thread_local bool within_part = false;

struct Task {
  void (*f)(void*, int);
  void* data;
};

// The thread may be the one that called, or one that knows no workers.
void run_hosted(void* data, int part) {
  const Task& task = *static_cast<const Task*>(data);
  const bool before = within_part;
  within_part = true;
  task.f(task.data, part);
  within_part = before;
}

#if defined(__SANITIZE_THREAD__)
// The thread sanitizer doesn't see how OpenMP's threads wait for each other.
void run_observed(int parts, void (*f)(void*, int), void* data) {
  Task task{f, data};
  std::vector<std::thread> threads;
  for (int part = 1; part < parts; ++part) threads.emplace_back(run_hosted, &task, part);
  run_hosted(&task, 0);
  for (std::thread& t : threads) t.join();
}
#endif

}  // namespace

WorkersScope::WorkersScope(Workers& given) : before_(workers) { workers = &given; }
WorkersScope::~WorkersScope() { workers = before_; }

bool on_host_threads() { return workers || within_part; }

int parallel_width() {
  if (within_part) return 1;
  if (workers) return std::max(1, workers->count());
  return omp_in_parallel() ? 1 : omp_get_max_threads();
}

void run_parts(int parts, void (*f)(void*, int), void* data) {
  if (within_part) {
    for (int part = 0; part < parts; ++part) f(data, part);
  } else if (workers) {
    Task task{f, data};
    workers->run(parts, run_hosted, &task);
  } else {
#if defined(__SANITIZE_THREAD__)
    run_observed(parts, f, data);
#else
#pragma omp parallel num_threads(parts) if (parts > 1 && !omp_in_parallel())
    for (int part = omp_get_thread_num(); part < parts; part += omp_get_num_threads()) f(data, part);
#endif
  }
}

}  // namespace attune
