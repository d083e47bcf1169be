// Values that are computed from the sizes of the model's inputs.
#pragma once

#include <string>
#include <unordered_map>

#include "graph/graph.h"
#include "ops/infer/infer.h"

namespace attune {

// Computes expressions over sizes of graph inputs with nodes of the model's outermost graph, each one once. What nobody
// uses in the end, erase_unused() takes.
class SizeBuilder {
 public:
  // `inference`, if given, learns of the new nodes.
  explicit SizeBuilder(Graph& outermost, Inference* inference = nullptr);

  bool can_compute(const Dim& d) const;
  // An int64 tensor of rank 1 with the elements `dims`, which can all be computed.
  Value* vector(const Dims& dims);
  // Likewise, of rank 0.
  Value* scalar(const Dim& d);

 private:
  // Where a symbol can be read off.
  struct Source {
    Value* input;
    int64_t axis;
  };

  Value* sum(const Dim& d);
  Value* size(const std::string& symbol);
  Value* shape_of(Value* input);
  Value* node(std::string type, std::vector<Value*> inputs, Attributes attributes = {});

  Graph& graph_;
  Inference* inference_;
  std::unordered_map<std::string, Source> sources_;
  std::unordered_map<std::string, Value*> vectors_, scalars_, sizes_;
  std::unordered_map<const Value*, Value*> shapes_;
};

}  // namespace attune
