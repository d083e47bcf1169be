// What a decoder's graph does with its tokens, for add_cache().
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "graph/graph.h"
#include "ops/infer/infer.h"

namespace attune {

// Throw Error(kUnsupported): why a cache can't be added.
[[noreturn]] void refuse_cache(const Node& node, const std::string& reason);
[[noreturn]] void refuse_cache(const std::string& reason);

// The input whose integers look rows of a table up; null if there is none, or several.
Value* tokens_of(const Graph& graph);

// How a decoder treats its tokens: each value either has an axis of time, is a number computed from the length, or has
// nothing to do with it.
class TokenFlow {
 public:
  // Throws as refuse_cache() where something other than causal attention doesn't treat each token by itself.
  TokenFlow(const Model& model, const Inference& inference, Value* tokens);

  const std::vector<Node*>& self_attentions() const { return self_; }
  const std::vector<Node*>& cross_attentions() const { return cross_; }
  const std::vector<Node*>& ranges() const { return ranges_; }          // positions of tokens
  const std::vector<Node*>& slices() const { return slices_; }          // rows of tables, one for each token
  const std::vector<Node*>& biases() const { return biases_; }          // RelativePositionBias between tokens
  const std::vector<Node*>& embeddings() const { return embeddings_; }  // PositionEmbedding of tokens

 private:
  bool depends_on_length(const Dim& d) const { return d.known() && d.symbols().contains(length_.as_symbol()); }

  // The only axis that has the length of the tokens; negative if there is none, or several, or it is hidden in a size.
  int axis_of(const Value& v) const;
  // The same, counted from the end.
  int axis_from_end(const Value& v) const;
  bool is_size(const Value& v) const { return sizes_.contains(&v); }
  bool is_timed(const Value& v) const { return timed_.contains(&v); }

  void visit(Node& n);
  void visit_dependent(Node& n, bool timed);
  static void add(const Node& n, std::unordered_set<const Value*>& set);
  bool all_contents_known(const Node& n) const;
  // 0, 1, ... length - 1
  void visit_range(Node& n);
  // The first rows of a table, one for each token.
  void visit_slice(Node& n);
  void visit_bias(Node& n);
  void visit_embedding(Node& n);
  bool is_bias(const Value& v) const;
  void visit_attention(Node& n);
  bool length_free(const Value& v) const;
  bool treats_tokens_alone(const Node& n) const;
  // All operands that have an axis of tokens have it at the same place from the end; `count`: operands looked at.
  bool aligned(const Node& n, size_t count = 99) const;

  const Graph& graph_;
  const Inference& inference_;
  Dim length_;
  std::unordered_set<const Value*> timed_, sizes_;
  std::vector<Node*> self_, cross_, ranges_, slices_, biases_, embeddings_;
};

}  // namespace attune
