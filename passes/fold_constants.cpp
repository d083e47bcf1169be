#include <algorithm>
#include <array>

#include "graph/constant_node.h"
#include "ops/evaluate.h"
#include "ops/op.h"
#include "passes/passes.h"

namespace attune {
namespace {

// A folded result may be as large as the constants that only it was computed from, or this large: weights that others
// read, too, aren't copied.
constexpr size_t kAlwaysAllowedBytes = 16384;

bool foldable(const Node& n, int64_t opset) {
  static constexpr std::array kKept = {"DequantizeLinear", "DynamicQuantizeLinear"};
  if (std::find(kKept.begin(), kKept.end(), n.type()) != kKept.end()) return false;
  if (std::any_of(n.inputs().begin(), n.inputs().end(), [](const Value* v) { return v && !v->constant(); }))
    return false;
  const OpDef* op = find_op(n.domain(), n.type(), opset);
  return op && op->deterministic;
}

// Bytes of the constants that only `n` reads, or of an always allowed result.
size_t allowed_bytes(const Node& n) {
  size_t before = 0;
  for (const Value* v : n.inputs())
    if (v && v->uses().size() == 1) before += v->constant()->bytes();
  return std::max(before, kAlwaysAllowedBytes);
}

// False if inference knows that the results are larger: then they needn't be computed.
bool may_be_small(const Node& n) {
  double bytes = 0;
  for (size_t i = 0; i < n.output_count(); ++i) {
    const Value* v = n.output(i);
    if (!v || !v->tensor_type().shape) continue;
    double count = 1;
    for (const Dim& d : *v->tensor_type().shape) count *= static_cast<double>(d.constant().value_or(1));
    bytes += count * static_cast<double>(storage_bytes(v->element_type(), 8)) / 8;
  }
  return bytes <= static_cast<double>(allowed_bytes(n));
}

bool small_enough(const Node& n, const std::vector<Datum>& results) {
  size_t after = 0;
  for (const Datum& d : results)
    if (d.kind() == Datum::Kind::kTensor) after += d.tensor().bytes();
  return after <= allowed_bytes(n);
}

class Folder {
 public:
  explicit Folder(const Model& model) : model_(model) {}

  size_t run(Graph& graph) {
    for (Node* n : graph.topological_order()) {
      for (Graph* body : n->subgraphs()) run(*body);
      fold(graph, *n);
    }
    return folded_;
  }

 private:
  void fold(Graph& graph, Node& n) {
    if (n.is("Constant")) {
      if (auto t = constant_node_value(n)) replace(graph, n, {Datum(std::move(*t))});
      return;
    }
    if (!foldable(n, model_.opset(n.domain())) || !may_be_small(n)) return;
    std::vector<Datum> inputs;
    for (const Value* v : n.inputs()) inputs.push_back(v ? Datum(*v->constant()) : Datum());
    std::vector<Datum> results;
    try {
      results = evaluate(n, model_.opset(n.domain()), std::move(inputs));
    } catch (const Error&) {
      return;  // no kernel for these types, or an error that belongs to run time
    }
    if (small_enough(n, results)) replace(graph, n, results);
  }

  void replace(Graph& graph, Node& n, const std::vector<Datum>& results) {
    for (size_t i = 0; i < n.output_count(); ++i)
      if (n.output(i) &&
          (n.output(i)->is_graph_output() || i >= results.size() || results[i].kind() != Datum::Kind::kTensor))
        return;
    for (size_t i = 0; i < n.output_count(); ++i) {
      if (!n.output(i)) continue;
      const std::string name(n.output(i)->name());
      n.output(i)->set_name({});
      graph.replace_all_uses(n.output(i), graph.add_constant(results[i].tensor().to_contiguous(), name));
    }
    graph.erase(&n);
    ++folded_;
  }

  const Model& model_;
  size_t folded_ = 0;
};

}  // namespace

size_t fold_constants(PassContext& context) {
  const size_t folded = Folder(context.model).run(*context.model.graph);
  context.model.graph->erase_unused();
  return folded;
}

}  // namespace attune
