#include "graph/io/text.h"

#include <onnx/onnx_pb.h>
//
#include <onnx/defs/parser.h>
#include <onnx/defs/printer.h>

#include <algorithm>

#include "graph/io/reader.h"
#include "graph/io/writer.h"

namespace attune {
namespace {

// ONNX's parser is recursive: text that nests too deeply must not reach it.
void check_nesting(std::string_view text) {
  constexpr int kMaxDepth = 200;
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '#') {
      i = std::min(text.find('\n', i), text.size());
    } else if (c == '"') {
      while (++i < text.size() && text[i] != '"')
        if (text[i] == '\\') ++i;
    } else if (c == '(' || c == '{') {
      if (++depth > kMaxDepth)
        throw Error(Error::Kind::kLimit, "ONNX text: it nests deeper than " + std::to_string(kMaxDepth) + " brackets");
    } else if (c == ')' || c == '}') {
      --depth;
    }
  }
}

}  // namespace

Model parse_model(std::string_view text) {
  check_nesting(text);
  onnx::ModelProto proto;
  onnx::OnnxParser parser(text);
  try {
    const auto status = parser.Parse(proto);
    if (!status.IsOK()) throw Error(Error::Kind::kInvalidModel, "ONNX text: " + status.ErrorMessage());
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {  // numbers beyond the range of their type
    throw Error(Error::Kind::kInvalidModel, std::string("ONNX text: ") + e.what());
  }
  return read_model_bytes(proto.SerializeAsString());
}

std::string to_text(Model& model) {
  onnx::ModelProto proto;
  if (!proto.ParseFromString(serialize_model(model)))
    throw Error(Error::Kind::kInternal, "a written model can't be parsed");
  return onnx::ProtoToString(proto);
}

}  // namespace attune
