#include "passes/attention_node.h"
#include "passes/passes.h"

namespace attune {

size_t eliminate_dead(PassContext& context) {
  Graph& graph = *context.model.graph;
  size_t removed = graph.erase_unused();
  // Outputs that a rule offers and nobody took.
  graph.for_each_node([&](Node& n) {
    for (size_t i = n.output_count(); is_attention(n) && i-- > kAttentionContext + 1;)
      if (n.output(i) && !is_used(n, i)) {
        n.remove_output(i);
        ++removed;
      }
  });
  return removed;
}

}  // namespace attune
