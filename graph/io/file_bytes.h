// The bytes of a file, mapped or read.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace attune {

struct FileBytes {
  std::string_view bytes;
  std::shared_ptr<const void> owner;  // keeps `bytes` alive

  // Small files are read, others mapped. Throws Error(kIo) for what isn't a readable regular file.
  static FileBytes open(const std::filesystem::path& file);
  // The same of an open descriptor, which stays open.
  static FileBytes of_descriptor(int descriptor);
  static FileBytes of_string(std::string bytes);
};

// Tells the system that this memory won't be read soon, if it lies in a file that FileBytes mapped: it needn't stay
// resident, and comes back from the file when it is read. Other memory is left as it is.
void release_mapped_pages(const void* data, size_t size) noexcept;

// Calls `use` with consecutive pieces of `bytes`, and releases the mapped pages of each after it: however long `bytes`
// is, little of it is resident at a time.
void use_and_release(std::string_view bytes, const std::function<void(std::string_view)>& use);

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
