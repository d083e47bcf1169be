// The model in memory. Knows no operator and no protobuf: those are in reader and writer.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "graph/tensor.h"
#include "graph/type.h"

namespace attune {

class Graph;
class Node;
class Value;

// An attribute that stands for an attribute of the enclosing function (function bodies only).
struct AttributeReference {
  std::string name;
  int onnx_type = 0;  // onnx::AttributeProto_AttributeType
};

// An attribute of a kind that no operator of ONNX uses (sparse tensors, lists of types): a serialized
// onnx::AttributeProto, kept for writing only.
struct UnmodelledAttribute {
  std::string serialized;
};

using Attribute = std::variant<int64_t, float, std::string, Tensor, std::shared_ptr<Graph>, std::vector<int64_t>,
                               std::vector<float>, std::vector<std::string>, std::vector<Tensor>,
                               std::vector<std::shared_ptr<Graph>>, ValueType, AttributeReference, UnmodelledAttribute>;
using Attributes = std::map<std::string, Attribute, std::less<>>;

// Where a value is used: input `index` of `node`, which may lie in a nested graph.
struct Use {
  Node* node;
  size_t index;
};

// One value of a graph: a graph input, a constant (initializer), or an output of a node.
// Pointers stay valid until the value is erased.
class Value {
 public:
  Value(const Value&) = delete;
  Value& operator=(const Value&) = delete;

  std::string_view name() const noexcept { return name_; }  // a label; no rule may match on it; may be empty
  void set_name(std::string name) { name_ = std::move(name); }

  Graph* graph() const noexcept { return graph_; }
  Node* producer() const noexcept { return producer_; }  // null for inputs and constants
  size_t output_index() const noexcept { return output_index_; }
  std::span<const Use> uses() const noexcept { return uses_; }
  bool is_graph_input() const noexcept { return is_input_; }
  bool is_graph_output() const;  // of its own graph

  // The tensor, if this is an initializer or the output of a Constant node; else null.
  // An initializer that is also a graph input (a default the caller may override) is no constant.
  const Tensor* constant() const noexcept;
  const Tensor* default_value() const noexcept { return initializer_ ? &*initializer_ : nullptr; }

  const ValueType& type() const noexcept { return type_; }
  const TensorType& tensor_type() const noexcept { return type_.tensor; }
  DataType element_type() const noexcept { return type_.tensor.element; }
  void set_type(ValueType type) { type_ = std::move(type); }

  std::string doc;
  std::map<std::string, std::string> metadata;
  // Quantisation annotation: parameter ("SCALE_TENSOR") to the name of the value that holds it.
  std::map<std::string, std::string> quantization;

 private:
  friend class Graph;
  friend class Node;
  Value() = default;
  std::string name_;
  Graph* graph_ = nullptr;
  Node* producer_ = nullptr;
  size_t output_index_ = 0;
  bool is_input_ = false;
  ValueType type_;
  std::optional<Tensor> initializer_;
  std::vector<Use> uses_;
};

class Node {
 public:
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  const std::string& domain() const noexcept { return domain_; }  // "" is ai.onnx
  const std::string& type() const noexcept { return type_; }
  bool is(std::string_view type, std::string_view domain = "") const noexcept {
    return type_ == type && domain_ == domain;
  }
  Graph* graph() const noexcept { return graph_; }

  // Inputs may be null: an optional input that is left out. input(i) past the end is null too.
  std::span<Value* const> inputs() const noexcept { return inputs_; }
  Value* input(size_t i) const noexcept { return i < inputs_.size() ? inputs_[i] : nullptr; }
  void set_input(size_t i, Value* value);  // grows the list as needed
  void trim_inputs();                      // drops nulls at the end

  size_t output_count() const noexcept { return outputs_.size(); }
  // Null where an output is left out or past the end.
  Value* output(size_t i = 0) const noexcept { return i < outputs_.size() ? outputs_[i].get() : nullptr; }
  Value* add_output(std::string name = {});  // one more
  void remove_output(size_t i);              // leaves a hole (trimmed at the end); it must be unused

  Attributes& attributes() noexcept { return attributes_; }
  const Attributes& attributes() const noexcept { return attributes_; }
  bool has(std::string_view name) const { return attributes_.contains(name); }
  template <class T>
  const T* find(std::string_view name) const {
    const auto it = attributes_.find(name);
    return it == attributes_.end() ? nullptr : std::get_if<T>(&it->second);
  }
  // The attribute, or `fallback` if it isn't there. Throws Error(kInvalidModel) if it has another type.
  int64_t attr_int(std::string_view name, int64_t fallback) const;
  float attr_float(std::string_view name, float fallback) const;
  std::string attr_string(std::string_view name, std::string_view fallback) const;
  std::vector<int64_t> attr_ints(std::string_view name, std::vector<int64_t> fallback = {}) const;
  void set(std::string name, Attribute value) { attributes_.insert_or_assign(std::move(name), std::move(value)); }

  // Graphs among the attributes (If, Loop, Scan), in order of attribute names.
  std::vector<Graph*> subgraphs() const;

  // "node '/layers.3/MatMul' (MatMul)", for error frames and reports.
  std::string label() const;

  std::string name;
  std::string overload;
  std::string doc;
  std::map<std::string, std::string> metadata;
  std::string device_configurations;  // a serialized onnx::NodeProto with only these; kept for writing

 private:
  friend class Graph;
  Node() = default;
  std::string domain_, type_;
  Graph* graph_ = nullptr;
  std::vector<Value*> inputs_;
  std::vector<std::unique_ptr<Value>> outputs_;
  Attributes attributes_;
  std::list<std::unique_ptr<Node>>::iterator position_;
};

// A graph: inputs, outputs, constants and nodes. A body of If, Loop or Scan is a Graph whose
// parent_node() is set; its nodes may take values of the graphs around it.
class Graph {
 public:
  Graph() = default;
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  // A deep copy (tensors are shared). Values of outer graphs stay the ones that were captured.
  // `mapping`, if given, receives the copy of each value.
  std::shared_ptr<Graph> clone(std::unordered_map<const Value*, Value*>* mapping = nullptr) const;

  std::string name;
  std::string doc;
  std::map<std::string, std::string> metadata;

  Node* parent_node() const noexcept { return parent_node_; }
  Graph* parent() const noexcept { return parent_node_ ? parent_node_->graph() : nullptr; }
  // Makes this graph the attribute `attribute` of `node`.
  static void attach(std::shared_ptr<Graph> body, Node* node, std::string attribute);
  static void attach(std::vector<std::shared_ptr<Graph>> bodies, Node* node, std::string attribute);

  std::span<Value* const> inputs() const noexcept { return input_list_; }
  std::span<Value* const> outputs() const noexcept { return outputs_; }
  const std::list<std::unique_ptr<Value>>& constants() const noexcept { return constants_; }
  const std::list<std::unique_ptr<Node>>& nodes() const noexcept { return nodes_; }

  Value* add_input(std::string name, ValueType type);
  // Gives an input a default (an initializer of the same name).
  void set_default(Value* input, Tensor tensor);
  Value* add_constant(Tensor tensor, std::string name = {});
  // The node comes last in nodes(). Its outputs are unnamed until written.
  Node* add_node(std::string domain, std::string type, std::vector<Value*> inputs, size_t outputs = 1,
                 Attributes attributes = {});
  // As add_node, but before `before` in nodes().
  Node* insert_node(Node* before, std::string domain, std::string type, std::vector<Value*> inputs, size_t outputs = 1,
                    Attributes attributes = {});
  void add_output(Value* value);
  void set_output(size_t i, Value* value);
  void remove_output(size_t i);
  void remove_input(Value* input);  // it must be unused

  // All uses, graph outputs included (of this and of nested graphs), become uses of `to`. `to` takes the
  // name of a graph output over if it has none of its own to keep.
  void replace_all_uses(Value* from, Value* to);
  void erase(Node* node);                // its outputs must be unused
  void erase_constant(Value* constant);  // it must be unused
  // Erases nodes whose outputs are all unused, and unused constants, here and in nested graphs.
  // Graph inputs stay. Gives the number of nodes erased.
  size_t erase_unused();

  // Nodes so that producers precede users (nested uses count). Throws Error(kInvalidModel) on a cycle, naming
  // nodes on it.
  std::vector<Node*> topological_order() const;
  // Puts nodes() into that order, stably.
  void sort();

  // Values of outer graphs that nodes in here (nested ones too) use, without duplicates, in order of first use.
  std::vector<Value*> captured() const;
  // Calls `f` for each node here and in nested graphs, outer before inner.
  void for_each_node(const std::function<void(Node&)>& f) const;

  // Checks the invariants (uses match inputs, names unique per scope, no cycle, outputs owned here or outside,
  // values visible where they are used). Throws Error(kInvalidModel).
  void verify() const;
  // Gives every unnamed value and node a name that is unique in the whole model, and a new one to nodes that are named
  // as another of their graph, and to values that are named as another of their graph, or as one that their graph takes
  // from outside (the inputs and outputs of this graph keep theirs).
  void assign_names();

 private:
  friend class Node;
  friend class Value;
  Node* link(std::list<std::unique_ptr<Node>>::iterator before, std::string domain, std::string type,
             std::vector<Value*> inputs, size_t outputs, Attributes attributes);

  Node* parent_node_ = nullptr;
  std::list<std::unique_ptr<Value>> owned_inputs_;
  std::vector<Value*> input_list_;
  std::vector<Value*> outputs_;
  std::list<std::unique_ptr<Value>> constants_;
  std::list<std::unique_ptr<Node>> nodes_;
};

// A model-local function: its body is a graph whose attributes may be AttributeReference.
struct Function {
  std::string domain, name, overload, doc;
  std::map<std::string, int64_t> opset_imports;
  std::vector<std::string> attributes;  // names without default
  Attributes attribute_defaults;
  std::map<std::string, std::string> metadata;
  std::shared_ptr<Graph> body;  // inputs and outputs are the function's
};

struct Model {
  int64_t ir_version = 0;
  std::string producer_name, producer_version, domain, doc;
  int64_t model_version = 0;
  std::map<std::string, int64_t> opset_imports;  // "" is ai.onnx
  std::map<std::string, std::string> metadata;
  std::vector<Function> functions;
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  std::string unmodelled;  // a serialized onnx::ModelProto with training_info and configuration; kept for writing

  int64_t opset(std::string_view domain = "") const;  // 0 if not imported
  const Function* find_function(std::string_view domain, std::string_view name, std::string_view overload = {}) const;
};

}  // namespace attune
