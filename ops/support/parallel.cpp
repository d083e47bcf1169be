#include "ops/support/parallel.h"

#include <omp.h>

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

}  // namespace

WorkersScope::WorkersScope(Workers& given) : before_(workers) { workers = &given; }
WorkersScope::~WorkersScope() { workers = before_; }

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
#pragma omp parallel num_threads(parts) if (parts > 1 && !omp_in_parallel())
    for (int part = omp_get_thread_num(); part < parts; part += omp_get_num_threads()) f(data, part);
  }
}

}  // namespace attune
