#include "graph/io/reader.h"

#include <fmt/format.h>
#include "graph/io/onnx_protos.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "graph/io/file_bytes.h"
#include "graph/io/graph_reader.h"
#include "graph/io/tensor_proto.h"
#include "graph/io/wire.h"

namespace attune {
namespace {

[[noreturn]] void invalid(std::string message) { throw Error(Error::Kind::kInvalidModel, std::move(message)); }

constexpr int64_t kNewestIr = onnx::Version::IR_VERSION;

template <class Proto>
Proto parse(std::string_view bytes, wire::Message root) {
  const std::string skeleton = wire::skeleton(bytes, root);
  Proto proto;
  if (!proto.ParseFromArray(skeleton.data(), static_cast<int>(skeleton.size())))
    invalid("not a valid ONNX file: a field holds what it can't, or the file nests too deeply");
  return proto;
}

// The folder of the file that `file` leads to, if it is a symbolic link; else none.
std::filesystem::path linked_folder(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_symlink(file, error)) return {};
  const auto target = std::filesystem::canonical(file, error);
  return error ? std::filesystem::path() : target.parent_path();
}

Model read(const FileBytes& file, ExternalData external, const ReadOptions& options) {
  if (file.bytes.empty()) invalid("it is empty");
  const auto proto = parse<onnx::ModelProto>(file.bytes, wire::Message::kModel);
  if (!proto.has_graph()) invalid("it has no graph: it isn't an ONNX model");
  if (proto.ir_version() < 1) invalid("it has no IR version");
  if (proto.ir_version() > kNewestIr)
    throw Error(Error::Kind::kUnsupported,
                fmt::format("IR version {}; at most {} is supported", proto.ir_version(), kNewestIr));

  Model model;
  model.ir_version = std::max<int64_t>(proto.ir_version(), 4);
  model.producer_name = proto.producer_name();
  model.producer_version = proto.producer_version();
  model.domain = proto.domain();
  model.doc = proto.doc_string();
  model.model_version = proto.model_version();
  model.metadata = to_map(proto.metadata_props());
  for (const auto& import : proto.opset_import()) {
    const std::string domain = import.domain() == "ai.onnx" ? std::string() : import.domain();
    if (import.version() < 1) invalid(fmt::format("opset version {} of '{}'", import.version(), domain));
    if (!model.opset_imports.emplace(domain, import.version()).second)
      invalid(fmt::format("two opset versions of '{}'", domain));
  }
  if (model.opset_imports.empty()) invalid("it imports no opset");

  TensorReader tensors(file, std::move(external), options.external_data);
  GraphReader graphs(tensors, proto.ir_version() < 4);
  std::set<std::tuple<std::string, std::string, std::string>> functions;
  for (const auto& f : proto.functions()) {
    model.functions.push_back(graphs.read(f));
    const Function& added = model.functions.back();
    if (!functions.emplace(added.domain, added.name, added.overload).second)
      invalid(fmt::format("two functions are named '{}.{}'", added.domain, added.name));
  }
  model.graph = graphs.read(proto.graph());
  if (options.external_files) *options.external_files = tensors.external_files();

  if (proto.training_info_size() > 0 || proto.configuration_size() > 0) {
    onnx::ModelProto kept;
    kept.mutable_training_info()->CopyFrom(proto.training_info());
    kept.mutable_configuration()->CopyFrom(proto.configuration());
    model.unmodelled = kept.SerializeAsString();
  }
  return model;
}

Datum to_datum(const onnx::SequenceProto& proto, TensorReader& tensors);
Datum to_datum(const onnx::OptionalProto& proto, TensorReader& tensors) {
  switch (proto.elem_type()) {
    case onnx::OptionalProto::UNDEFINED:
      return Datum::optional();
    case onnx::OptionalProto::TENSOR:
      return Datum::optional(tensors.read(proto.tensor_value()));
    case onnx::OptionalProto::SPARSE_TENSOR:
      return Datum::optional(tensors.read(proto.sparse_tensor_value()));
    case onnx::OptionalProto::SEQUENCE:
      return Datum::optional(to_datum(proto.sequence_value(), tensors));
    case onnx::OptionalProto::OPTIONAL:
      return Datum::optional(to_datum(proto.optional_value(), tensors));
    default:
      throw Error(Error::Kind::kUnsupported, "an optional map");
  }
}

Datum to_datum(const onnx::SequenceProto& proto, TensorReader& tensors) {
  std::vector<Datum> elements;
  for (const auto& t : proto.tensor_values()) elements.emplace_back(tensors.read(t));
  for (const auto& t : proto.sparse_tensor_values()) elements.emplace_back(tensors.read(t));
  for (const auto& s : proto.sequence_values()) elements.push_back(to_datum(s, tensors));
  for (const auto& o : proto.optional_values()) elements.push_back(to_datum(o, tensors));
  if (proto.map_values_size() > 0) throw Error(Error::Kind::kUnsupported, "a sequence of maps");
  return Datum::sequence(std::move(elements));
}

}  // namespace

Model read_model(const std::filesystem::path& file, const ReadOptions& options) {
  return within(file.string(), [&] {
    return read(FileBytes::open(file), {file.parent_path(), linked_folder(file)}, options);
  });
}

Model read_model_bytes(std::string_view bytes, const std::filesystem::path& folder, const ReadOptions& options) {
  return read(FileBytes::of_string(std::string(bytes)), {folder, {}}, options);
}

Datum read_tensor_file(const std::filesystem::path& file, const ValueType& type) {
  return within(file.string(), [&]() -> Datum {
    const FileBytes bytes = FileBytes::open(file);
    TensorReader tensors(bytes, {file.parent_path(), {}}, true);
    switch (type.kind) {
      case ValueType::Kind::kSequence:
        return to_datum(parse<onnx::SequenceProto>(bytes.bytes, wire::Message::kSequence), tensors);
      case ValueType::Kind::kOptional:
        return to_datum(parse<onnx::OptionalProto>(bytes.bytes, wire::Message::kOptional), tensors);
      case ValueType::Kind::kMap:
        throw Error(Error::Kind::kUnsupported, "maps as test data");
      case ValueType::Kind::kSparseTensor:
        return tensors.read(parse<onnx::SparseTensorProto>(bytes.bytes, wire::Message::kSparseTensor));
      default:
        return tensors.read(parse<onnx::TensorProto>(bytes.bytes, wire::Message::kTensor));
    }
  });
}

}  // namespace attune
