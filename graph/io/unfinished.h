// Files and folders that exist under temporary names, so that a program that is asked to stop can remove them.
#pragma once

#include <filesystem>

namespace attune {

// The path counts as unfinished while this lives. The owner removes it.
class Unfinished {
 public:
  explicit Unfinished(const std::filesystem::path& path);
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
  ~Unfinished();

 private:
  std::filesystem::path path_;
};

// Removes all that is unfinished. From then on nothing becomes unfinished or finished any more: threads that try wait
// for the end of the process.
void remove_unfinished();

}  // namespace attune
