// Tensors in files beside the model (onnx/docs/ExternalData.md).
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "graph/io/file_bytes.h"

namespace attune {

// The external data files of one model, each opened once. A location must lead to a regular file within the model's
// folder, whatever symbolic links do; a file with hard links must have them all in that folder. Where the model's file
// is itself a link, the folder that it leads to counts as well: caches keep files in one folder, and links in another.
class ExternalData {
 public:
  ExternalData(std::filesystem::path folder, std::filesystem::path linked)
      : folder_(std::move(folder)), linked_(std::move(linked)) {}

  struct Piece {
    const FileBytes* file;
    size_t offset;
    size_t size;
  };
  // `entries`: the keys location, offset and length of a TensorProto; `expected`: the bytes that its shape needs.
  // Throws Error(kInvalidModel) for a location that isn't allowed or numbers that don't fit, Error(kIo) where the file
  // can't be read.
  Piece find(const std::map<std::string, std::string>& entries, size_t expected);
  std::set<std::filesystem::path> opened() const;

 private:
  const FileBytes& open(const std::string& location);
  std::filesystem::path folder_;
  std::filesystem::path linked_;  // the folder of the file that the model's name leads to; empty if it is no link
  std::map<std::string, FileBytes> files_;
};

}  // namespace attune
