// Models into ONNX files.
#pragma once

#include <filesystem>
#include <string>

#include "graph/graph.h"

namespace attune {

struct WriteOptions {
  // Tensors of at least so many bytes go to one external file beside the model, NAME.onnx.data, when
  // all of them together exceed external_threshold.
  size_t external_tensor_bytes = 1024;
  size_t external_threshold = size_t{1} << 30;
};

// Writes to a temporary name beside `file`, then renames: nothing is left half written. Unnamed values and nodes
// get names. Throws Error(kIo).
void write_model(Model& model, const std::filesystem::path& file, const WriteOptions& options = {});
std::string serialize_model(Model& model);  // without external data; throws Error(kLimit) above 2 GB
// One tensor as a serialized onnx::TensorProto named `name`.
std::string serialize_tensor(const Tensor& tensor, const std::string& name = {});

}  // namespace attune
