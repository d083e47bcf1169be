#include "graph/io/unfinished.h"

#include <mutex>
#include <set>
#include <system_error>

namespace attune {
namespace {

struct Registry {
  std::mutex mutex;
  std::set<std::filesystem::path> paths;
};

Registry& registry() {
  static auto* const r = new Registry;  // outlives threads that the end of the process finds at work
  return *r;
}

}  // namespace

Unfinished::Unfinished(const std::filesystem::path& path) : path_(std::filesystem::absolute(path)) {
  const std::lock_guard lock(registry().mutex);
  registry().paths.insert(path_);
}

Unfinished::~Unfinished() {
  const std::lock_guard lock(registry().mutex);
  registry().paths.erase(path_);
}

void remove_unfinished() {
  registry().mutex.lock();  // for good
  std::error_code ignored;
  for (const std::filesystem::path& path : registry().paths) std::filesystem::remove_all(path, ignored);
}

}  // namespace attune
