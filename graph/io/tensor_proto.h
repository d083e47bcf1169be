// onnx::TensorProto and the types of values, to and from the model in memory.
#pragma once

#include "graph/io/onnx_protos.h"

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "graph/io/external_data.h"
#include "graph/io/file_bytes.h"
#include "graph/io/reader.h"
#include "graph/tensor.h"
#include "graph/type.h"

namespace attune {

// Reads the tensors of a skeleton (see wire.h) of `file`.
class TensorReader {
 public:
  TensorReader(FileBytes file, ExternalData external, bool read_external)
      : file_(std::move(file)), external_(std::move(external)), read_external_(read_external) {}

  // A view of the file where the data lies aligned in it, else a copy. Undefined for external data that isn't to
  // be read. Throws Error(kInvalidModel) where data and shape don't agree.
  Tensor read(const onnx::TensorProto& proto);
  // The dense tensor of the same elements. Throws also Error(kLimit) where it would be absurdly larger.
  Tensor read(const onnx::SparseTensorProto& proto);
  // The same of a message that isn't part of a skeleton: its raw_data is data, not a reference.
  Tensor read_whole(const onnx::SparseTensorProto& proto);
  std::set<std::filesystem::path> external_files() const { return external_.opened(); }  // so far

 private:
  Tensor from_bytes(DataType type, const Shape& shape, const FileBytes& file, size_t offset, size_t size) const;
  FileBytes file_;
  ExternalData external_;
  bool read_external_;
};

// The shape in a proto; throws Error(kInvalidModel) for negative sizes, Error(kLimit) for a rank or count beyond
// limits.
Shape shape_of(const onnx::TensorProto& proto);
DataType data_type_of(int onnx_type);  // throws Error(kInvalidModel) if there is no such type

ValueType to_type(const onnx::TypeProto& proto);
void to_proto(const ValueType& type, onnx::TypeProto& proto);

std::map<std::string, std::string> to_map(
    const google::protobuf::RepeatedPtrField<onnx::StringStringEntryProto>& entries);
void to_proto(const std::map<std::string, std::string>& map,
              google::protobuf::RepeatedPtrField<onnx::StringStringEntryProto>& entries);

}  // namespace attune
