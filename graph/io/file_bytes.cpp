#include "graph/io/file_bytes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>

#include "graph/error.h"

namespace attune {
namespace {

constexpr size_t kReadBelow = size_t{1} << 16;
constexpr size_t kPiece = size_t{4} << 20;

[[noreturn]] void fail(const char* action) {
  throw Error(Error::Kind::kIo, fmt::format("can't {}: {}", action, std::strerror(errno)));
}

// The files that are mapped now. Dropping pages is right in these only: elsewhere it would lose what they hold.
class Mappings {
 public:
  void add(const void* data, size_t size) {
    const std::scoped_lock lock(mutex_);
    sizes_[address(data)] = size;
  }
  void remove(const void* data) {
    const std::scoped_lock lock(mutex_);
    sizes_.erase(address(data));
  }
  bool contain(const void* data, size_t size) {
    const std::scoped_lock lock(mutex_);
    const auto after = sizes_.upper_bound(address(data));
    if (after == sizes_.begin()) return false;
    const auto [begin, length] = *std::prev(after);
    return address(data) + size <= begin + length;
  }

 private:
  static uintptr_t address(const void* data) { return reinterpret_cast<uintptr_t>(data); }
  std::mutex mutex_;
  std::map<uintptr_t, size_t> sizes_;
};

// Never destroyed: mappings may outlive static objects.
Mappings& mappings() {
  static auto* const all = new Mappings;
  return *all;
}

}  // namespace

Descriptor::~Descriptor() {
  if (value_ >= 0) ::close(value_);
}

FileBytes FileBytes::of_string(std::string bytes) {
  auto owner = std::make_shared<const std::string>(std::move(bytes));
  return {*owner, owner};
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
  mappings().add(data, size);
  std::shared_ptr<const void> owner(data, [size](void* p) {
    mappings().remove(p);
    ::munmap(p, size);
  });
  return {{static_cast<const char*>(data), size}, std::move(owner)};
}

void release_mapped_pages(const void* data, size_t size) noexcept {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t skipped = (page - reinterpret_cast<uintptr_t>(data) % page) % page;
  if (size < skipped + page || !mappings().contain(data, size)) return;
  char* begin = static_cast<char*>(const_cast<void*>(data)) + skipped;
  ::madvise(begin, (size - skipped) / page * page, MADV_DONTNEED);
}

void use_and_release(std::string_view bytes, const std::function<void(std::string_view)>& use) {
  for (; !bytes.empty(); bytes.remove_prefix(std::min(kPiece, bytes.size()))) {
    const std::string_view piece = bytes.substr(0, kPiece);
    use(piece);
    release_mapped_pages(piece.data(), piece.size());
  }
}

}  // namespace attune
