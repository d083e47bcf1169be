// Files that appear at their place once all of them are written.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "graph/io/unfinished.h"

namespace attune {

// A folder to write to, which goes with all in it unless it is committed. It is locked while its process lives: those
// of processes that were killed go with the next one of the same destination.
class Staging {
 public:
  // For files that go to the folder `destination`: inside it, so that it may be a mount point, a link, or all that may
  // be written; beside it if it isn't there. Throws Error(kIo).
  explicit Staging(std::filesystem::path destination);
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging();

  // Where to write.
  const std::filesystem::path& path() const { return path_; }
  // Moves what was written: at once if the destination isn't there, otherwise file by file, models behind what they
  // need. A file that is replaced leaves its permissions. Throws Error that names the file, before anything was moved,
  // where a folder is in the place of one.
  void commit();

 private:
  void make();
  void remove();

  std::filesystem::path destination_, outer_, path_;
  std::vector<std::filesystem::path> made_;  // folders around it that weren't there, the innermost first
  std::optional<Unfinished> unfinished_;
  int lock_ = -1;
};

}  // namespace attune
