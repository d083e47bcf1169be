// Splitting work over threads: the process's OpenMP pool (the one that oneDNN uses), or while a host's call runs, the
// host's own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace attune {

// Threads that belong to somebody else.
class Workers {
 public:
  virtual ~Workers() = default;
  // Parts that are worth making: about the number of threads.
  virtual int count() const = 0;
  // Calls f(data, part) once for each part of [0, parts), on any threads, and returns when all are done.
  virtual void run(int parts, void (*f)(void* data, int part), void* data) = 0;
};

// While it lives, this thread's parallel work goes to `workers`.
class WorkersScope {
 public:
  explicit WorkersScope(Workers& workers);
  ~WorkersScope();
  WorkersScope(const WorkersScope&) = delete;
  WorkersScope& operator=(const WorkersScope&) = delete;

 private:
  Workers* before_;
};

// So many parts run at the same time; 1 within a part.
int parallel_width();
// Calls f(data, part) once for each part of [0, parts); then throws what a part has thrown (one, if several have).
void run_parts(int parts, void (*f)(void* data, int part), void* data);

// Calls f(part) once for each part of [0, parts), which may run at the same time or one after the other.
// Throws as run_parts does.
template <class F>
void parallel_parts(int parts, F&& f) {
  using Function = std::remove_reference_t<F>;
  if (parts == 1) return f(0);
  run_parts(
      parts, [](void* data, int part) { (*static_cast<Function*>(data))(part); },
      const_cast<void*>(static_cast<const void*>(&f)));
}

// Elements below which a memory-bound loop is faster on one thread.
inline constexpr int64_t kParallelGrain = 32768;

// Calls f(begin, end) for disjoint parts of [0, count), each of at least `grain` items (unless there are fewer).
// Throws as run_parts does.
template <class F>
void parallel_for(int64_t count, int64_t grain, F&& f) {
  const int parts =
      count <= grain
          ? 1
          : static_cast<int>(std::min<int64_t>(parallel_width(), (count + grain - 1) / std::max<int64_t>(grain, 1)));
  if (parts <= 1) {
    f(int64_t{0}, count);
    return;
  }
  const int64_t each = count / parts, rest = count % parts;
  parallel_parts(parts, [&](int part) {
    const int64_t begin = part * each + std::min<int64_t>(part, rest);
    f(begin, begin + each + (part < rest ? 1 : 0));
  });
}

}  // namespace attune
