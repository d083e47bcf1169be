#include "graph/io/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
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
  return file.parent_path() / fmt::format(".{}.{}-{}.tmp", file.filename().string(), ::getpid(), counter++);
}

}  // namespace

OutputFile::OutputFile(std::filesystem::path file) : file_(std::move(file)) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(file_, error);
  if (std::filesystem::is_directory(status)) throw Error(Error::Kind::kIo, "it is a directory, not a file");
  if (std::filesystem::is_other(status) || std::filesystem::is_character_file(status) ||
      std::filesystem::is_block_file(status) || std::filesystem::is_fifo(status) ||
      std::filesystem::is_socket(status)) {
    descriptor_ = ::open(file_.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor_ < 0) fail("open it", errno);
    return;
  }
  // The file that a link names, not the link.
  if (auto target = std::filesystem::canonical(file_, error); !error) file_ = std::move(target);
  do {
    temporary_ = temporary_name(file_);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) fail("create it", errno);
  unfinished_.emplace(temporary_);
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
  within(file.string(), [&] { const OutputFile unwritten(file); });
}

void write_file(const std::filesystem::path& file, std::string_view bytes) {
  within(file.string(), [&] {
    OutputFile out(file);
    out.write(bytes);
    out.commit();
  });
}

}  // namespace attune
