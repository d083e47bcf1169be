// std::filesystem without its exceptions.
#pragma once

#include <filesystem>
#include <utility>

#include "graph/error.h"

namespace attune {

// What `f` gives, which calls std::filesystem; failures of that are thrown as Error(kIo) that names `path`.
template <class F>
decltype(auto) io(const std::filesystem::path& path, F&& f) {
  try {
    return std::forward<F>(f)();
  } catch (const std::filesystem::filesystem_error& e) {
    throw Error(Error::Kind::kIo, path.string() + ": " + e.code().message());
  }
}

}  // namespace attune
