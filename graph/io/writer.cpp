#include "graph/io/writer.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/io/file_bytes.h"
#include "graph/io/graph_writer.h"
#include "graph/io/output_file.h"
#include "graph/io/wire.h"

namespace attune {
namespace {

constexpr uint64_t kMaxMessage = (uint64_t{1} << 31) - 1;
constexpr uint64_t kExternalAlignment = 4096;  // what ONNX recommends, so that others can map it too

void assign_names(Model& model) {
  model.graph->assign_names();
  for (const Function& f : model.functions) f.body->assign_names();
}

// Calls f for each tensor that the model holds, attributes included.
void for_each_tensor(const Graph& graph, const std::function<void(const Tensor&)>& f) {
  for (const auto& v : graph.constants()) f(*v->default_value());
  for (const Value* v : graph.inputs())
    if (v->default_value()) f(*v->default_value());
  for (const auto& n : graph.nodes()) {
    for (const auto& [name, attribute] : n->attributes()) {
      if (const auto* t = std::get_if<Tensor>(&attribute)) f(*t);
      if (const auto* list = std::get_if<std::vector<Tensor>>(&attribute))
        for (const Tensor& t : *list) f(t);
    }
    for (const Graph* body : n->subgraphs()) for_each_tensor(*body, f);
  }
}

// A model's weights lie in the file that it was read from: what is written needn't stay resident.
void write_bytes(std::string_view bytes, OutputFile& file) {
  use_and_release(bytes, [&](std::string_view piece) { file.write(piece); });
}

// Lays tensors out in the external file; a tensor that is used twice is there once.
class ExternalLayout {
 public:
  ExternalLayout(std::string location, size_t smallest) : location_(std::move(location)), smallest_(smallest) {}

  std::map<std::string, std::string> place(const Tensor& tensor) {
    if (tensor.bytes() < smallest_) return {};
    const auto [it, is_new] = offsets_.try_emplace({tensor.raw(), tensor.bytes()}, 0);
    if (is_new) {
      end_ = (end_ + kExternalAlignment - 1) / kExternalAlignment * kExternalAlignment;
      it->second = end_;
      pieces_.push_back({end_, tensor});
      end_ += tensor.bytes();
    }
    return {
        {"location", location_}, {"offset", std::to_string(it->second)}, {"length", std::to_string(tensor.bytes())}};
  }

  void write(OutputFile& file) const {
    for (const auto& [offset, tensor] : pieces_) {
      file.pad_to(offset);
      write_bytes({reinterpret_cast<const char*>(tensor.raw()), tensor.bytes()}, file);
    }
  }

 private:
  std::string location_;
  size_t smallest_;
  uint64_t end_ = 0;
  std::map<std::pair<const std::byte*, size_t>, uint64_t> offsets_;
  std::vector<std::pair<uint64_t, Tensor>> pieces_;
};

// Writes the model that `writer` made a skeleton of.
void expand(const std::string& skeleton, wire::Message root, const GraphWriter& writer,
            const std::function<void(std::string_view)>& sink) {
  const wire::Expander expander(skeleton, root, writer.data());
  if (expander.size() > kMaxMessage)
    throw Error(Error::Kind::kLimit,
                fmt::format("the model takes {} bytes; without external data 2 GB is the most", expander.size()));
  expander.write(sink);
}

}  // namespace

void write_model(Model& model, const std::filesystem::path& file, const WriteOptions& options) {
  within(file.string(), [&] {
    assign_names(model);
    size_t large = 0;
    for_each_tensor(*model.graph, [&](const Tensor& t) {
      if (t.bytes() >= options.external_tensor_bytes) large += t.bytes();
    });

    const std::filesystem::path data_name = file.filename().string() + ".data";
    ExternalLayout layout(data_name.string(), options.external_tensor_bytes);
    const bool external = large > options.external_threshold;
    GraphWriter writer(external ? GraphWriter::Place([&](const Tensor& t) { return layout.place(t); })
                                : GraphWriter::Place());
    onnx::ModelProto proto;
    writer.write(model, proto);

    std::optional<OutputFile> data;
    if (external) {
      data.emplace(file.parent_path() / data_name);
      layout.write(*data);
      data->close();
    }
    OutputFile output(file);
    expand(proto.SerializeAsString(), wire::Message::kModel, writer,
           [&](std::string_view bytes) { write_bytes(bytes, output); });
    output.close();
    if (data) data->commit();
    output.commit();
  });
}

std::string serialize_model(Model& model) {
  assign_names(model);
  GraphWriter writer;
  onnx::ModelProto proto;
  writer.write(model, proto);
  std::string out;
  expand(proto.SerializeAsString(), wire::Message::kModel, writer, [&](std::string_view bytes) { out.append(bytes); });
  return out;
}

std::string serialize_tensor(const Tensor& tensor, const std::string& name) {
  GraphWriter writer;
  onnx::TensorProto proto;
  writer.write(tensor, proto);
  if (!name.empty()) proto.set_name(name);
  std::string out;
  expand(proto.SerializeAsString(), wire::Message::kTensor, writer, [&](std::string_view bytes) { out.append(bytes); });
  return out;
}

}  // namespace attune
