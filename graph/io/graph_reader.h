// onnx::GraphProto and FunctionProto into Graphs.
#pragma once

#include "graph/io/onnx_protos.h"

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "graph/graph.h"
#include "graph/io/tensor_proto.h"

namespace attune {

class GraphReader {
 public:
  // `initializers_are_inputs`: before IR 4 every initializer had to be listed among the inputs too, and was a
  // constant all the same.
  GraphReader(TensorReader& tensors, bool initializers_are_inputs)
      : tensors_(tensors), initializers_are_inputs_(initializers_are_inputs) {}

  // Nodes may come in any order; they are sorted. Throws Error(kInvalidModel) for names that are missing or defined
  // twice, cycles, and attributes that contradict themselves.
  std::shared_ptr<Graph> read(const onnx::GraphProto& proto);
  Function read(const onnx::FunctionProto& proto);

 private:
  struct Scope {
    const Scope* outer;
    std::unordered_map<std::string_view, Value*> values;
  };
  struct PendingNode {
    const onnx::NodeProto* proto;
    Node* node;
  };

  std::shared_ptr<Graph> read(const onnx::GraphProto& proto, const Scope* outer);
  void read_initializers(const onnx::GraphProto& proto, Graph& graph, Scope& scope);
  void add_initializer(const onnx::TensorProto& proto, Tensor tensor, Graph& graph, Scope& scope);
  void read_nodes(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& protos, Graph& graph, Scope& scope);
  static Node* add_node(const onnx::NodeProto& proto, Graph& graph, Scope& scope);
  void connect(const PendingNode& pending, const Scope& scope);
  void read_attribute(const onnx::AttributeProto& proto, Node* node, const Scope& scope);
  Attribute read_plain_attribute(const onnx::AttributeProto& proto);
  static void define(std::string_view name, Value* value, Scope& scope);
  static Value* find(std::string_view name, const Scope& scope);

  TensorReader& tensors_;
  bool initializers_are_inputs_;
  bool in_function_ = false;
};

}  // namespace attune
