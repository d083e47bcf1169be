#include "convert/staging.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "graph/error.h"
#include "graph/io/file_system.h"

namespace attune {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = ".attune-partial-", kPattern = "XXXXXX";  // as mkdtemp() wants it

int open_folder(const fs::path& folder) { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }

void remove_abandoned(const fs::path& folder) {
  std::error_code ignored;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kPrefix) && name.size() == kPrefix.size() + kPattern.size() && entry.is_directory(ignored))
      found.push_back(entry.path());
  }
  for (const fs::path& path : found) {
    const int descriptor = open_folder(path);
    if (descriptor < 0) continue;
    if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) fs::remove_all(path, ignored);
    ::close(descriptor);
  }
}

}  // namespace

Staging::Staging(fs::path destination) : destination_(std::move(destination)) {
  try {
    make();
  } catch (...) {
    remove();
    throw;
  }
}

Staging::~Staging() { remove(); }

void Staging::make() {
  io(destination_, [&] {
    const bool inside = fs::exists(destination_);
    const fs::path parent = inside                           ? destination_
                            : destination_.has_parent_path() ? destination_.parent_path()
                                                             : fs::path(".");
    for (fs::path p = parent; !p.empty() && !fs::exists(p); p = p.parent_path()) made_.push_back(p);
    fs::create_directories(parent);
    remove_abandoned(parent);
    // Another process may have taken the new folder for an abandoned one before it was locked.
    for (struct stat status = {}; status.st_nlink == 0;) {
      if (const int lost = std::exchange(lock_, -1); lost >= 0) ::close(lost);
      unfinished_.reset();
      std::string name = (parent / fmt::format("{}{}", kPrefix, kPattern)).string();
      if (::mkdtemp(name.data()) == nullptr)
        throw Error(Error::Kind::kIo,
                    fmt::format("{}: can't make a folder in it: {}", parent.string(), std::strerror(errno)));
      outer_ = name;
      unfinished_.emplace(outer_);
      lock_ = open_folder(outer_);
      if (lock_ < 0)
        throw Error(Error::Kind::kIo, fmt::format("{}: can't be opened: {}", outer_.string(), std::strerror(errno)));
      if (::flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) continue;
      if (::fstat(lock_, &status) != 0) break;
    }
    path_ = outer_ / "files";  // with the permissions that new folders have here; those of outer_ are the owner's
    fs::create_directory(path_);
  });
}

void Staging::remove() {
  std::error_code ignored;
  if (lock_ >= 0) ::close(lock_);  // first: where no more files may be open, the one that it takes is needed
  fs::remove_all(outer_, ignored);
  for (const fs::path& parent : made_) fs::remove(parent, ignored);  // if it is empty
}

void Staging::commit() {
  io(destination_, [&] {
    if (!fs::exists(destination_)) return fs::rename(path_, destination_);
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(path_)) files.push_back(entry.path());
    std::stable_partition(files.begin(), files.end(), [](const fs::path& f) { return f.extension() != ".onnx"; });
    for (const fs::path& file : files) {
      const fs::path target = destination_ / file.filename();
      const fs::file_status status = fs::status(target);
      if (fs::is_directory(status))
        throw Error(Error::Kind::kInvalidArgument,
                    fmt::format("{}: expected a file or none, found a folder", target.string()));
      if (fs::is_regular_file(status)) fs::permissions(file, status.permissions());
    }
    for (const fs::path& file : files) fs::rename(file, destination_ / file.filename());
  });
}

}  // namespace attune
