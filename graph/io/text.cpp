#include "graph/io/text.h"

#include <onnx/onnx_pb.h>
//
#include <onnx/defs/parser.h>
#include <onnx/defs/printer.h>

#include "graph/io/reader.h"
#include "graph/io/writer.h"

namespace attune {

Model parse_model(std::string_view text) {
  onnx::ModelProto proto;
  onnx::OnnxParser parser(text);
  const auto status = parser.Parse(proto);
  if (!status.IsOK()) throw Error(Error::Kind::kInvalidModel, "ONNX text: " + status.ErrorMessage());
  return read_model_bytes(proto.SerializeAsString());
}

std::string to_text(Model& model) {
  onnx::ModelProto proto;
  if (!proto.ParseFromString(serialize_model(model)))
    throw Error(Error::Kind::kInternal, "a written model can't be parsed");
  return onnx::ProtoToString(proto);
}

}  // namespace attune
