// What the files around oneDNN share. Included by dnnl*.cpp only.
#pragma once

#include <fmt/format.h>

#include <oneapi/dnnl/dnnl.hpp>
#include <string_view>
#include <utility>

#include "graph/buffer.h"
#include "graph/error.h"
#include "ops/support/dnnl.h"

namespace attune::onednn {

// Calls f; dnnl::error becomes Error(kInternal).
template <class F>
decltype(auto) guarded(const char* what, F&& f) {
  try {
    return std::forward<F>(f)();
  } catch (const dnnl::error& e) {
    throw Error(Error::Kind::kInternal, fmt::format("oneDNN {} ({}): {}", version(), what, e.what()));
  }
}

const dnnl::engine& engine();
dnnl::stream& stream();  // the thread's
// Scratch memory comes from the caller.
dnnl::primitive_attr base_attributes();

// Threads that oneDNN may use now: within a host, the one that calls.
int threads();

// Keeps oneDNN to threads(), on this thread.
class ThreadLimit {
 public:
  ThreadLimit();
  ~ThreadLimit();
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;

 private:
  int before_ = 0;  // 0: nothing to restore
};

inline bool is_reference(const char* implementation) {
  return std::string_view(implementation).find("ref") != std::string_view::npos;
}

// Memory over data that oneDNN only reads where it is an input.
inline dnnl::memory wrap(const dnnl::memory::desc& desc, const void* data) {
  return {desc, engine(), const_cast<void*>(data)};
}

inline BufferRef scratch(size_t bytes, BufferPool* pool) {
  if (bytes == 0) return {};
  return pool ? pool->acquire(bytes) : BufferRef::allocate(bytes);
}

inline void* address(const BufferRef& buffer) { return buffer ? buffer->data() : nullptr; }

}  // namespace attune::onednn
