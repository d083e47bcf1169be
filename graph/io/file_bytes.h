// The bytes of a file, mapped or read.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace attune {

struct FileBytes {
  std::string_view bytes;
  std::shared_ptr<const void> owner;  // keeps `bytes` alive
  bool mapped = false;

  // Small files are read, others mapped. Throws Error(kIo) for what isn't a readable regular file.
  static FileBytes open(const std::filesystem::path& file);
  // The same of an open descriptor, which stays open.
  static FileBytes of_descriptor(int descriptor);
  static FileBytes of_string(std::string bytes);
  // Tells the system that these bytes won't be read again soon, so that they needn't stay in memory.
  void release_pages(size_t offset, size_t size) const noexcept;
};

// An open file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();
  int get() const { return value_; }

 private:
  int value_;
};

}  // namespace attune
