// A model's graph made ready for a plan: functions inlined, constants folded. Internal to the runtime.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/graph.h"

namespace attune {

using OpsetImports = std::map<std::string, int64_t>;

class PreparedGraph {
 public:
  // Copies the graph of `model`. Model-local functions are inlined, operators without a kernel whose schema has a
  // body become that body, halves between operators become float32 (see widen.h), and attentions whose memory depends
  // on `fixed_inputs` alone (or, in the body of a loop, on what lies outside) are split in two. With
  // rounded_activations, feed-forward layers with stored weights become one node (see feed_forward.h). Throws
  // Error(kInvalidModel) where functions call themselves.
  PreparedGraph(const Model& model, const std::set<std::string>& fixed_inputs, bool rounded_activations = false);

  Graph& graph() const { return *graph_; }
  // The version of its domain that `node` is written in: the model's, or that of the function it came from.
  int64_t opset(const Node& node) const;

 private:
  // Where a node came from: the functions around it, innermost first.
  struct Origin {
    std::string function;
    std::shared_ptr<const OpsetImports> opsets;
    std::shared_ptr<const Origin> outer;
  };

  const OpsetImports& opsets(const Node& node) const;
  bool inline_model_functions(const Model& model);
  bool expand_schema_functions();
  std::vector<Node*> replace(Node* call, const Function& function, const std::string& key);
  void widen();
  void split_attentions(Graph& graph, std::unordered_set<const Value*> fixed);
  void join_products();
  void fold(Graph& graph);
  void fold(Node& node);

  std::shared_ptr<Graph> graph_;
  OpsetImports model_opsets_;
  DataType memory_type_ = DataType::kUndefined;  // of keys and values that are computed once; undefined: as computed
  std::unordered_map<const Node*, std::shared_ptr<const Origin>> origins_;
};

}  // namespace attune
