// A file that appears under its name only when it is complete.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "graph/io/unfinished.h"

namespace attune {

// Written under a temporary name in the same folder; commit() renames it. Without commit() nothing is left behind. Of a
// symbolic link the file that it names is replaced; devices and pipes (/dev/stdout) are written to as they are.
// All throw Error(kIo).
class OutputFile {
 public:
  explicit OutputFile(std::filesystem::path file);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  void write(std::string_view bytes);
  void pad_to(uint64_t position);  // with zeros
  uint64_t position() const noexcept { return position_; }
  // Closes the file; what the system could not store is reported here. commit() does it, if it wasn't done.
  void close();
  void commit();

 private:
  std::filesystem::path file_, temporary_;
  std::optional<Unfinished> unfinished_;
  int descriptor_ = -1;
  uint64_t position_ = 0;
};

// The whole file from `bytes`, likewise. Throws Error(kIo) that names the file.
void write_file(const std::filesystem::path& file, std::string_view bytes);

// That `file` could be written now, so that a long run doesn't end in vain. Throws Error(kIo) that names the file.
void check_writable(const std::filesystem::path& file);

}  // namespace attune
