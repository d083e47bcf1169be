// Models into onnx::ModelProto skeletons: tensor data stays where it is.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/io/onnx_protos.h"

namespace attune {

class GraphWriter {
 public:
  // Called for each tensor with data that is to go into external files; gives the entries of external_data, or none
  // to keep it in the model.
  using Place = std::function<std::map<std::string, std::string>(const Tensor&)>;

  explicit GraphWriter(Place place = {}) : place_(std::move(place)) {}

  // Names must have been assigned. raw_data fields are references (wire.h) into data().
  void write(const Model& model, onnx::ModelProto& proto);
  void write(const Tensor& tensor, onnx::TensorProto& proto);
  const std::vector<std::string_view>& data() const { return data_; }

 private:
  void write(const Graph& graph, onnx::GraphProto& proto);
  void write(const Node& node, onnx::NodeProto& proto);
  void write(const std::string& name, const Attribute& attribute, onnx::AttributeProto& proto);
  void write(const Function& function, onnx::FunctionProto& proto);
  void write_initializer(const Value& value, onnx::TensorProto& proto);

  Place place_;
  std::vector<std::string_view> data_;
  std::vector<Tensor> kept_;  // owners of what had to be copied
};

}  // namespace attune
