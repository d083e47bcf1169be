#include "graph/io/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "graph/error.h"

namespace attune {
namespace {

[[noreturn]] void fail(const char* action, int error) {
  throw Error(Error::Kind::kIo, fmt::format("can't {}: {}", action, std::strerror(error)));
}

std::filesystem::path temporary_name(const std::filesystem::path& file) {
  static std::atomic<unsigned> counter{0};
  return file.parent_path() / fmt::format(".attune-{}-{}.tmp", ::getpid(), counter++);
}

// Devices, pipes and the like: what isn't replaced. Throws for a directory.
bool is_written_in_place(const std::filesystem::path& file) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(file, error);
  if (std::filesystem::is_directory(status)) throw Error(Error::Kind::kIo, "it is a directory, not a file");
  return std::filesystem::is_other(status);
}

}  // namespace

OutputFile::OutputFile(std::filesystem::path file) : file_(std::move(file)) {
  if (is_written_in_place(file_)) {
    descriptor_ = ::open(file_.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor_ < 0) fail("open it", errno);
    return;
  }
  // The file that a link names, not the link.
  std::error_code error;
  if (auto target = std::filesystem::canonical(file_, error); !error) file_ = std::move(target);
  do {
    temporary_ = temporary_name(file_);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) fail("create it", errno);
  unfinished_.emplace(temporary_);
  if (struct stat replaced = {}; ::stat(file_.c_str(), &replaced) == 0)  // a file that nobody else may read stays one
    (void)::fchmod(descriptor_, replaced.st_mode & 07777);
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void OutputFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(descriptor_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("write it", errno);
    bytes.remove_prefix(static_cast<size_t>(n));
    position_ += static_cast<uint64_t>(n);
  }
}

void OutputFile::pad_to(uint64_t position) {
  static constexpr char kZeros[4096] = {};
  while (position_ < position)
    write({kZeros, static_cast<size_t>(std::min<uint64_t>(position - position_, sizeof kZeros))});
}

void OutputFile::close() {
  if (descriptor_ < 0) return;
  const int closed = ::close(descriptor_);
  const int error = errno;
  descriptor_ = -1;
  if (closed != 0) fail("write it", error);
}

void OutputFile::commit() {
  close();
  if (temporary_.empty()) return;
  if (::rename(temporary_.c_str(), file_.c_str()) != 0) fail("rename the finished file to it", errno);
  temporary_.clear();
  unfinished_.reset();
}

void check_writable(const std::filesystem::path& file) {
  within(file.string(), [&] {
    if (!is_written_in_place(file)) {
      const OutputFile unwritten(file);
    } else if (::access(file.c_str(), W_OK) != 0) {  // not opened: a pipe's reader would see its end
      fail("open it", errno);
    }
  });
}

void write_file(const std::filesystem::path& file, std::string_view bytes) {
  within(file.string(), [&] {
    OutputFile out(file);
    out.write(bytes);
    out.commit();
  });
}

}  // namespace attune
