#include "graph/io/external_data.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>

#include "graph/error.h"

namespace attune {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void invalid(std::string message) { throw Error(Error::Kind::kInvalidModel, std::move(message)); }

std::optional<uint64_t> number(const std::map<std::string, std::string>& entries, const char* key) {
  const auto it = entries.find(key);
  if (it == entries.end() || it->second.empty()) return std::nullopt;
  uint64_t value = 0;
  const char* end = it->second.data() + it->second.size();
  const auto [stop, error] = std::from_chars(it->second.data(), end, value);
  if (error != std::errc() || stop != end)
    invalid(fmt::format("external data: {} '{}' isn't a byte count", key, it->second));
  return value;
}

bool is_within(const fs::path& file, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), file.begin(), file.end()).first == folder.end();
}

// Names of the inode within the folder, up to the file's link count.
size_t count_links(const fs::path& folder, const struct stat& wanted) {
  size_t found = 0;
  std::error_code ignored;
  for (auto it = fs::recursive_directory_iterator(folder, ignored);
       it != fs::recursive_directory_iterator() && !ignored; it.increment(ignored)) {
    struct stat status {};
    if (::lstat(it->path().c_str(), &status) == 0 && status.st_ino == wanted.st_ino && status.st_dev == wanted.st_dev)
      if (++found == wanted.st_nlink) break;
  }
  return found;
}

}  // namespace

const FileBytes& ExternalData::open(const std::string& location) {
  if (const auto it = files_.find(location); it != files_.end()) return it->second;
  const fs::path relative(location);
  if (location.empty() || location.find('\0') != std::string::npos) invalid("external data: the location is missing");
  if (relative.is_absolute() || std::find(relative.begin(), relative.end(), "..") != relative.end())
    invalid(fmt::format("external data: location '{}' leaves the model's folder", location));

  std::error_code error;
  fs::path folder = fs::canonical(folder_.empty() ? fs::path(".") : folder_, error);
  if (error)
    throw Error(Error::Kind::kIo, fmt::format("external data: folder '{}': {}", folder_.string(), error.message()));
  const fs::path file = fs::canonical(folder / relative, error);
  if (error) throw Error(Error::Kind::kIo, fmt::format("external data: '{}': {}", location, error.message()));
  if (!is_within(file, folder) && !linked_.empty() && is_within(file, linked_)) folder = linked_;
  if (!is_within(file, folder))
    invalid(fmt::format("external data: '{}' is a link out of the model's folder", location));

  // The path has no links any more; one that appears meanwhile is refused.
  const Descriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status {};
  if (descriptor.get() < 0 || ::fstat(descriptor.get(), &status) != 0)
    throw Error(Error::Kind::kIo, fmt::format("external data: can't open '{}': {}", location, std::strerror(errno)));
  if (status.st_nlink > 1 && S_ISREG(status.st_mode) && count_links(folder, status) < status.st_nlink)
    invalid(fmt::format("external data: '{}' has a hard link outside of the model's folder", location));
  FileBytes bytes = within([&] { return "external data '" + location + "'"; },
                           [&] { return FileBytes::of_descriptor(descriptor.get()); });
  return files_.emplace(location, std::move(bytes)).first->second;
}

ExternalData::Piece ExternalData::find(const std::map<std::string, std::string>& entries, size_t expected) {
  const auto location = entries.find("location");
  if (location == entries.end()) invalid("external data: the location is missing");
  const uint64_t offset = number(entries, "offset").value_or(0);
  const std::optional<uint64_t> length = number(entries, "length");
  if (length && *length != expected)
    invalid(fmt::format("external data: length {} where the shape needs {} bytes", *length, expected));
  const FileBytes& file = open(location->second);
  if (offset > file.bytes.size() || expected > file.bytes.size() - offset)
    invalid(fmt::format("external data: {} bytes at {} pass the end of '{}' ({} bytes)", expected, offset,
                        location->second, file.bytes.size()));
  return {&file, static_cast<size_t>(offset), expected};
}

std::set<fs::path> ExternalData::opened() const {
  std::set<fs::path> out;
  for (const auto& [location, bytes] : files_) out.insert(folder_ / location);
  return out;
}

}  // namespace attune
