// How many threads kernels use.
#pragma once

namespace attune {

// Physical cores that this process may run on; at least 1.
int physical_cores();

// Sets the OpenMP threads of the calling thread, and sets them back.
class ThreadScope {
 public:
  explicit ThreadScope(int threads);
  ~ThreadScope();
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

 private:
  int before_;
};

}  // namespace attune
