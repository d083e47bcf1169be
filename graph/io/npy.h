// NumPy's .npy and .npz files (numpy.lib.format, versions 1 to 3).
//
// Element types: bool, integers, float16/32/64, complex64/128, strings ("U" as UTF-8, "S" as bytes) in either byte
// order. NumPy has no bfloat16: ml_dtypes' arrays are written as 'V2', which is read and written as bfloat16 here.
// float8 is written as 'V1' and refused when read, since 'V1' doesn't say which; int4 and its kin are written as int8
// or uint8.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "graph/tensor.h"

namespace attune {

using NamedTensors = std::map<std::string, Tensor, std::less<>>;

// Throw Error(kIo) where a file can't be read, Error(kInvalidArgument) where it isn't such a file or is damaged,
// Error(kUnsupported) for other element types; messages start with the file's name (and the array's).
Tensor read_npy(const std::filesystem::path& file);
NamedTensors read_npz(const std::filesystem::path& file);
// The same of bytes in memory.
Tensor parse_npy(std::string_view bytes);
NamedTensors parse_npz(std::string_view bytes);

// Written under a temporary name, then renamed. Throw Error(kIo), Error(kInvalidArgument) for strings that aren't
// UTF-8.
void write_npy(const std::filesystem::path& file, const Tensor& tensor);
void write_npz(const std::filesystem::path& file, const NamedTensors& tensors, bool compress = false);
std::string serialize_npy(const Tensor& tensor);

}  // namespace attune
