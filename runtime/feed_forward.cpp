#include "runtime/feed_forward.h"

#include "ops/support/stored_weights.h"

namespace attune {
namespace {

// A Linear's weights, stored in fewer bits than float32.
std::optional<Tensor> stored_weights(const Node& linear) {
  const Value* weights = linear.input(1);
  if (const auto m = stored_matrix(weights)) return m->values;
  const Tensor* plain = weights ? weights->constant() : nullptr;
  return plain && plain->rank() == 2 && is_half(plain->type()) ? std::optional(*plain) : std::nullopt;
}

// Their rows and columns.
std::optional<std::pair<int64_t, int64_t>> stored_size(const Node& linear) {
  const auto weights = stored_weights(linear);
  if (!weights || weights->count() == 0) return std::nullopt;
  const bool transposed = linear.attr_int("transposed", 0) != 0;
  return std::pair{weights->dim(transposed ? 1 : 0), weights->dim(transposed ? 0 : 1)};
}

// The first of two products, if `second` is the other one.
Node* first_product(const Node& second) {
  if (!second.is("Linear", "ai.attune")) return nullptr;
  const Value* between = second.input(0);
  Node* first = between ? between->producer() : nullptr;
  const bool follows = first && first->is("Linear", "ai.attune") && first->graph() == second.graph() &&
                       !first->input(3) && between->uses().size() == 1 && !between->is_graph_output();
  if (!follows) return nullptr;
  const auto a = stored_size(*first), b = stored_size(second);
  return a && b && a->second == b->first ? first : nullptr;
}

}  // namespace

void join_feed_forward(Graph& graph, const std::function<void(Node& first, Node& second, Node& both)>& joined) {
  for (Node* second : graph.topological_order()) {
    for (Graph* body : second->subgraphs()) join_feed_forward(*body, joined);
    Node* first = first_product(*second);
    if (!first) continue;
    Node* both = graph.add_node(
        "ai.attune.runtime", "FeedForward",
        {first->input(0), first->input(1), first->input(2), second->input(1), second->input(2), second->input(3)}, 1,
        {{"activation1", first->attr_string("activation", "none")},
         {"transposed1", first->attr_int("transposed", 0)},
         {"activation2", second->attr_string("activation", "none")},
         {"transposed2", second->attr_int("transposed", 0)}});
    both->name = second->name;
    both->output()->set_type(second->output()->type());
    joined(*first, *second, *both);
    graph.replace_all_uses(second->output(), both->output());
    graph.erase(second);
    graph.erase(first);
  }
}

}  // namespace attune
