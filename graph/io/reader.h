// ONNX files into models.
#pragma once

#include <filesystem>
#include <set>
#include <string_view>

#include "graph/graph.h"

namespace attune {

struct ReadOptions {
  bool external_data = true;  // false: tensors in external files stay undefined (names and types only)
  std::set<std::filesystem::path>* external_files = nullptr;  // gets the files that tensors were read from
};

// Reads an ONNX model (opset 9 to the newest, IR 3 to the newest). Weights are views of the mapped file and of
// its external data files, which must lie in the model's folder. Throws Error(kIo) if a file can't be read,
// Error(kInvalidModel) if it isn't a valid model (one shorter than it says, too); both name the file.
// As long as the weights live, the files may be removed or replaced by renaming, but not be shortened in place: reading
// a mapped file past its new end raises SIGBUS, which a library can't turn into an error.
Model read_model(const std::filesystem::path& file, const ReadOptions& options = {});
// The same from memory; `folder` is where external data is looked up. `bytes` is copied.
Model read_model_bytes(std::string_view bytes, const std::filesystem::path& folder = {},
                       const ReadOptions& options = {});
// Reads one serialized onnx::TensorProto (ONNX's test data), SequenceProto or OptionalProto.
Datum read_tensor_file(const std::filesystem::path& file, const ValueType& type);

}  // namespace attune
