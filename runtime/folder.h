// Which files of a folder make an encoder-decoder model.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace attune {

// Paths are empty where there is no such file.
struct ModelFiles {
  std::filesystem::path encoder;
  std::filesystem::path decoder;            // every layout but `whole` has it, or decoder_with_past, or both
  std::filesystem::path decoder_with_past;  // takes and gives caches; `decoder` then serves the first step
  std::filesystem::path whole;              // one model that loops by itself
};

// Layouts: encoder*.onnx with decoder_model.onnx and decoder_with_past_model.onnx, or decoder_model_merged.onnx, or any
// single decoder*.onnx (recurrent steps too); or one model alone. Throws Error(kIo) if the folder can't be read or
// fits none, listing the .onnx files there are.
ModelFiles find_model_files(const std::filesystem::path& folder);

// The file of that name in a model's folder, or, if the folder has none, in its parent, where variants of one model
// share their configuration. It may be missing.
std::filesystem::path configuration_file(const std::filesystem::path& folder, const std::string& name);

// The bytes of a file that isn't large; nothing where there is none. Throws Error(kIo) that names it where it can't be
// read (a directory).
std::optional<std::string> read_bytes(const std::filesystem::path& file);

}  // namespace attune
