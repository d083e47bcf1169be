#include "graph/io/file_bytes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "graph/error.h"

namespace attune {
namespace {

constexpr size_t kReadBelow = size_t{1} << 16;

[[noreturn]] void fail(const char* action) {
  throw Error(Error::Kind::kIo, fmt::format("can't {}: {}", action, std::strerror(errno)));
}

}  // namespace

Descriptor::~Descriptor() {
  if (value_ >= 0) ::close(value_);
}

FileBytes FileBytes::of_string(std::string bytes) {
  auto owner = std::make_shared<const std::string>(std::move(bytes));
  return {*owner, owner, false};
}

FileBytes FileBytes::open(const std::filesystem::path& file) {
  // Not to block on a pipe: that isn't a regular file either.
  const Descriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (descriptor.get() < 0) fail("open it");
  return of_descriptor(descriptor.get());
}

FileBytes FileBytes::of_descriptor(int descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) fail("examine it");
  if (S_ISDIR(status.st_mode)) throw Error(Error::Kind::kIo, "it is a directory, not a file");
  if (!S_ISREG(status.st_mode)) throw Error(Error::Kind::kIo, "it isn't a regular file");
  const auto size = static_cast<size_t>(status.st_size);
  if (size < kReadBelow) {
    std::string bytes(size, '\0');
    size_t done = 0;
    while (done < size) {
      const ssize_t n = ::pread(descriptor, bytes.data() + done, size - done, static_cast<off_t>(done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail("read it");
      if (n == 0) break;
      done += static_cast<size_t>(n);
    }
    bytes.resize(done);
    return of_string(std::move(bytes));
  }
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (data == MAP_FAILED) fail("map it into memory");
  std::shared_ptr<const void> owner(data, [size](void* p) { ::munmap(p, size); });
  return {{static_cast<const char*>(data), size}, std::move(owner), true};
}

void FileBytes::release_pages(size_t offset, size_t size) const noexcept {
  if (!mapped) return;
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<uintptr_t>(bytes.data()) + offset + page - 1) / page * page;
  const auto end = (reinterpret_cast<uintptr_t>(bytes.data()) + offset + size) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace attune
