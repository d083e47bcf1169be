#include "ops/support/parallel.h"

#include <omp.h>
#include <pthread.h>

#include <atomic>
#include <exception>

#include "ops/support/host_threads.h"

#if defined(__SANITIZE_THREAD__)
#include <thread>
#include <vector>
#endif

namespace attune {
namespace {

thread_local Workers* workers = nullptr;
thread_local bool within_part = false;
thread_local bool leads = false;  // a team of OpenMP's, which waits for its next work

// A forked process has no copy of the team's threads, and would wait for them forever: what its thread has to do, that
// thread does alone. Threads that it starts have teams of their own.
void lead() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { within_part = within_part || leads; });
  leads = registered == 0;
}

// Nothing may be thrown through threads that belong to OpenMP or to a host: the first exception waits for the caller.
class Task {
 public:
  Task(void (*f)(void*, int), void* data) : f_(f), data_(data) {}

  void run(int part) noexcept {
    try {
      f_(data_, part);
    } catch (...) {
      if (!failed_.test_and_set()) error_ = std::current_exception();
    }
  }

  // After all parts.
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void (*f_)(void*, int);
  void* data_;
  std::atomic_flag failed_;
  std::exception_ptr error_;
};

// The thread may be the one that called, or one that knows no workers.
void run_hosted(void* task, int part) {
  const bool before = within_part;
  within_part = true;
  static_cast<Task*>(task)->run(part);
  within_part = before;
}

#if defined(__SANITIZE_THREAD__)
// The thread sanitizer doesn't see how OpenMP's threads wait for each other.
void run_observed(int parts, Task& task) {
  std::vector<std::thread> threads;
  for (int part = 1; part < parts; ++part) threads.emplace_back(run_hosted, &task, part);
  run_hosted(&task, 0);
  for (std::thread& t : threads) t.join();
}
#endif

}  // namespace

WorkersScope::WorkersScope(Workers& given) : before_(workers) { workers = &given; }
WorkersScope::~WorkersScope() { workers = before_; }

bool on_host_threads() {
  if (workers || within_part) return true;
  lead();  // a library is about to
  return false;
}

int parallel_width() {
  if (within_part) return 1;
  if (workers) return std::max(1, workers->count());
  return omp_in_parallel() ? 1 : omp_get_max_threads();
}

void run_parts(int parts, void (*f)(void*, int), void* data) {
  if (within_part) {
    for (int part = 0; part < parts; ++part) f(data, part);
    return;
  }
  Task task(f, data);
  if (workers) {
    workers->run(parts, run_hosted, &task);
  } else {
#if defined(__SANITIZE_THREAD__)
    run_observed(parts, task);
#else
    if (parts > 1) lead();
#pragma omp parallel num_threads(parts) if (parts > 1 && !omp_in_parallel())
    for (int part = omp_get_thread_num(); part < parts; part += omp_get_num_threads()) task.run(part);
#endif
  }
  task.rethrow();
}

}  // namespace attune
